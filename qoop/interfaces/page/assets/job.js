// One query: where it stands, its timeline, stages, map, decisions, and estimates next to what they turned out to be.

import { h, progressBar, refill, setText, whenChanged } from "./dom.js";
import { candidateBars, confirm, decisionTitle, openDecision, openStage } from "./cards.js";
import { seriesOf } from "./colours.js";
import { Dag } from "./dag.js";
import { PlanMap } from "./map.js";
import { factsOf } from "./queries.js";
import { table } from "./table.js";
import { Timeline } from "./timeline.js";
import * as words from "./words.js";

export class JobPanel {
  constructor({ back, order, clock }) {
    this.order = order;
    this.view = null;
    this.picked = null; // the plan that the reader looks at; null follows the one that runs
    const stage = (id, plan) => openStage(this.view, id, plan);
    this.timeline = new Timeline({ clock, openStage: stage, openDecisions: (n, among) => openDecision(this.view, n, this.start(), among) });
    const graph = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Stages" });
    const map = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Map of plans" });
    this.dag = new Dag(graph, stage);
    this.map = new PlanMap(map);
    this.parts(back, graph, map);
    this.drawDecisions = whenChanged((decisions) => this.fillDecisions(decisions));
    this.drawStages = whenChanged((stages) => this.fillStages(stages));
    this.drawPlans = whenChanged(([plans, running, over]) => this.fillPlans(plans, running, over));
    this.drawEvents = whenChanged((events) => this.fillEvents(events));
    this.drawTabs = whenChanged(([names, shown, running]) => this.fillTabs(names, shown, running));
  }

  parts(back, graph, map) {
    this.title = h("h2", { class: "sql" });
    this.state = h("span", { class: "badge" });
    this.facts = h("p", { class: "facts" });
    this.error = h("pre", { class: "error" });
    this.bar = progressBar("progress of the query");
    this.percent = h("span", { class: "percent" });
    this.cancel = h("button", { type: "button", class: "danger", onclick: () => this.askCancel() }, "Cancel…");
    this.suspend = h("button", { type: "button", onclick: () => this.askSuspend() }, "Suspend…");
    this.tabs = h("div", { class: "buttons", role: "group", "aria-label": "Plan shown" });
    this.decisions = h("ol", { class: "decisions" });
    [this.stages, this.plans, this.events] = [h("div", {}), h("div", {}), h("ol", { class: "events" })];
    this.sql = h("pre", { tabindex: 0 });
    const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), children);
    this.eventsCard = card("What else happened", this.events);
    this.element = h(
      "div",
      { class: "query" },
      h("section", { class: "card head" }, h("button", { type: "button", class: "quiet back", onclick: back }, "← The session"),
        h("div", { class: "line" }, this.state, this.title, h("div", { class: "buttons" }, this.suspend, this.cancel)),
        h("div", { class: "progress" }, this.bar.element, this.percent), this.facts, this.error),
      card("Timeline", this.timeline.element),
      h("section", { class: "card graph" }, h("div", { class: "line" }, h("h2", {}, "Stages"), this.tabs), graph),
      h("div", { class: "pair" }, card("Decisions", this.decisions), card("Plans over slots and memory", map)),
      card("Estimates and what they turned out to be", this.stages),
      card("Plans", this.plans),
      this.eventsCard,
      card("SQL", this.sql),
    );
  }

  start() {
    return this.view.started ?? this.view.submitted;
  }

  update(view, overview) {
    if (this.view?.id !== view.id) this.picked = null;
    this.view = view;
    const over = words.isOver(view.state);
    this.head(view, overview, over);
    this.timeline.update(view);
    this.timeline.grow();
    this.graph(view);
    this.map.update([view.map, view.plans.map((plan) => plan.name), over]);
    this.drawDecisions(view.decisions);
    this.drawStages(view.stages);
    this.drawPlans([view.plans, view.running, over]);
    this.drawEvents(view.events);
    setText(this.sql, view.sql ?? view.text);
  }

  head(view, overview, over) {
    setText(this.state, `${words.stateMark(view.state)} ${words.stateWords(view.state)}`);
    this.state.dataset.state = view.state;
    setText(this.title, words.shorten(view.text, 220));
    this.bar.update(view.fraction);
    setText(this.percent, words.percent(view.fraction));
    setText(this.facts, [view.id, ...factsOf(view, overview.tenants.length > 1)].join(" · "));
    this.error.hidden = !view.error;
    setText(this.error, view.error ?? "");
    this.cancel.hidden = over || !overview.can.cancel;
    this.suspend.hidden = over || !overview.can.suspend || view.state === "QUEUED";
  }

  graph(view) {
    const drawn = [...new Set(view.stages.map((stage) => stage.plan))];
    const shown = drawn.includes(this.picked) ? this.picked : drawn.includes(view.running) ? view.running : (drawn.at(-1) ?? null);
    this.drawTabs([drawn, shown, view.running]);
    const stages = view.stages.filter((stage) => stage.plan === shown);
    this.dag.update([stages, [...new Set(view.stages.map((stage) => stage.id))]]);
  }

  fillTabs(names, shown, running) {
    const pick = (name) => {
      this.picked = name === this.view.running ? null : name;
      this.graph(this.view);
    };
    const tab = (name) =>
      h("button", { type: "button", "data-key": `plan ${name}`, "aria-pressed": String(name === shown), onclick: () => pick(name) },
        `Plan ${name}${name === running && !words.isOver(this.view.state) ? " (runs)" : ""}`);
    refill(this.tabs, names.length > 1 ? names.map(tab) : []);
  }

  fillDecisions(decisions) {
    if (!decisions.length) return refill(this.decisions, h("li", { class: "note" }, "None yet: the first plan runs."));
    return refill(this.decisions, decisions.map((decision, n) => this.decisionLine(decision, n)).reverse());
  }

  decisionLine(decision, n) {
    const title = `${words.clockTime(decision.at - this.start(), true)}  ${decisionTitle(decision)}`;
    const open = () => openDecision(this.view, n, this.start());
    return h(
      "li",
      { class: decision.switched ? "switched" : null },
      h("button", { type: "button", class: "quiet link", "data-key": `line ${n}`, onclick: open }, title),
      h("p", {}, decision.words),
      decision.candidates.length ? candidateBars(decision) : null,
      decision.switched ? h("p", { class: "note" }, decision.kept.length ? `Taken over: ${decision.kept.join(", ")}` : "Nothing was taken over.") : null,
    );
  }

  fillStages(stages) {
    const names = [...new Set(stages.map((stage) => stage.id))];
    const profiled = stages.some((stage) => stage.peak_memory !== null); // by EXPLAIN ANALYZE alone
    const heads = ["Stage", "What", "Plan", "Tasks", "Rows estimated", "Rows", "Compared", "Time estimated", "Time", "Output", ...(profiled ? ["Peak", "Spilled", "Read", "CPU"] : [])];
    const line = (stage) => [
      this.stageButton(stage, seriesOf(names, stage.id)),
      words.shorten(stage.label, 60) + (stage.carried ? " (taken over)" : "") + (stage.opaque ? ` (runs whole: ${stage.opaque})` : ""),
      stage.plan,
      `${stage.done}/${stage.tasks}`,
      words.rows(stage.rows_estimated),
      words.rows(stage.rows),
      words.factor(stage.rows_estimated, stage.rows),
      words.seconds(stage.seconds_estimated),
      words.seconds(stage.seconds),
      words.bytes(stage.bytes),
      ...(profiled ? [words.bytes(stage.peak_memory), stage.spilled ? words.bytes(stage.spilled) : words.NONE, words.bytes(stage.read), words.seconds(stage.cpu_seconds)] : []),
    ];
    refill(this.stages, table(heads, stages.map(line), { text: [0, 1, 2, 6], wide: 1, label: "Estimates of the stages" }));
  }

  stageButton(stage, series) {
    const open = () => openStage(this.view, stage.id, stage.plan);
    return h("button", { type: "button", class: `quiet link series-${series}`, "data-key": `row ${stage.plan} ${stage.id}`, onclick: open }, stage.id);
  }

  fillPlans(plans, running, over) {
    const heads = ["Plan", "What", "Still takes", "Stages", "Now"];
    const line = (plan) => [
      plan.name,
      plan.what,
      over ? words.NONE : words.seconds(plan.seconds),
      plan.stages.length,
      plan.name === running ? (over ? "ran last" : "runs") : plan.kept ? "ready" : "dropped",
    ];
    refill(this.plans, table(heads, plans.map(line), { text: [0, 1, 4], wide: 1, label: "Plans" }));
  }

  fillEvents(events) {
    this.eventsCard.hidden = !events.length;
    const line = (event) =>
      h("li", {}, h("span", { class: "number" }, words.clockTime(event.at - this.start(), true)), h("span", { class: "kind" }, words.plain(event.kind)), h("span", {}, event.words));
    refill(this.events, events.map(line).reverse());
  }

  askCancel() {
    const done = `It is ${words.percent(this.view.fraction)} done. What it has computed is thrown away.`;
    confirm(`Cancel query ${this.view.id}?`, done, "Cancel the query", () => this.order(`jobs/${encodeURIComponent(this.view.id)}/cancel`));
  }

  askSuspend() {
    const running = this.view.tasks.filter((task) => task.state === "RUNNING").length;
    const lost = running ? ` ${running} running ${running === 1 ? "task stops" : "tasks stop"} and will run again.` : "";
    confirm(`Suspend query ${this.view.id}?`, `Its finished tasks stay on disk, and it can be resumed later.${lost}`, "Suspend the query", () =>
      this.order(`jobs/${encodeURIComponent(this.view.id)}/suspend`));
  }
}

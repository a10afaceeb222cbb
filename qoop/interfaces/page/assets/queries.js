// The list of queries: one option each, in groups of running, waiting and done.

import { h, progressBar, setText } from "./dom.js";
import * as words from "./words.js";

const GROUPS = [
  ["Running", (job) => !words.isOver(job.state) && job.state !== "QUEUED"],
  ["Waiting", (job) => job.state === "QUEUED"],
  ["Done", (job) => words.isOver(job.state)],
];

export class Queries {
  constructor(element, choose) {
    this.choose = choose;
    this.lines = new Map();
    this.empty = h("p", { class: "note" }, "No query yet.");
    this.list = h("div", { role: "listbox", "aria-label": "Queries", class: "jobs" });
    this.groups = GROUPS.map(([name, holds]) => this.group(name, holds));
    this.list.addEventListener("keydown", (event) => this.key(event));
    element.replaceChildren(this.empty, this.list);
  }

  group(name, holds) {
    const heading = h("h2", { role: "presentation" });
    const rows = h("div", { role: "group", "aria-label": name }, heading);
    this.list.append(rows);
    return { name, holds, heading, rows };
  }

  update(overview, chosen) {
    this.empty.hidden = overview.jobs.length > 0;
    const known = new Set(overview.jobs.map((job) => job.id));
    for (const [id, line] of this.lines) if (!known.has(id)) this.forget(id, line);
    const several = overview.tenants.length > 1;
    for (const group of this.groups) this.fill(group, overview.jobs.filter(group.holds), several);
    this.mark(chosen);
  }

  fill(group, jobs, several) {
    group.rows.hidden = !jobs.length;
    setText(group.heading, `${group.name} (${jobs.length})`);
    jobs.forEach((job, n) => {
      const line = this.line(job.id);
      line.update(job, several);
      if (group.rows.children[n + 1] !== line.element) group.rows.insertBefore(line.element, group.rows.children[n + 1] ?? null);
    });
  }

  line(id) {
    if (!this.lines.has(id)) this.lines.set(id, new Line(id, this.choose));
    return this.lines.get(id);
  }

  forget(id, line) {
    line.element.remove();
    this.lines.delete(id);
  }

  /** One option can be reached by Tab: the chosen one, or the first. */
  mark(chosen) {
    const all = this.options();
    const reached = all.find((option) => option.dataset.key === chosen) ?? all[0];
    for (const option of all) {
      option.setAttribute("aria-selected", String(option.dataset.key === chosen));
      option.tabIndex = option === reached ? 0 : -1;
    }
  }

  options() {
    return [...this.list.querySelectorAll("[role=option]")];
  }

  focus(id) {
    this.lines.get(id)?.element.focus();
  }

  key(event) {
    const all = this.options();
    const here = all.indexOf(document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) all[Math.max(0, Math.min(all.length - 1, to))]?.focus();
    else if (event.key === "Enter" || event.key === " ") this.choose(all[here]?.dataset.key ?? null);
    else return;
    event.preventDefault();
  }
}

class Line {
  constructor(id, choose) {
    this.mark = h("span", { class: "mark", "aria-hidden": "true" });
    this.text = h("span", { class: "sql" });
    this.state = h("span", { class: "state" });
    this.facts = h("span", { class: "facts" });
    this.percent = h("span", { class: "percent" });
    this.bar = progressBar("progress");
    this.element = h(
      "div",
      { role: "option", tabindex: -1, "data-key": id, class: "job", onclick: () => choose(id) },
      h("div", { class: "first" }, this.mark, this.text),
      h("div", { class: "second" }, this.state, this.bar.element, this.percent),
      this.facts,
    );
  }

  update(job, several) {
    const now = JSON.stringify([job, several]);
    if (now === this.before) return;
    this.before = now;
    this.element.dataset.state = job.state;
    this.element.classList.toggle("late", Boolean(job.late));
    setText(this.mark, words.stateMark(job.state));
    setText(this.text, words.shorten(job.text, 160));
    setText(this.state, words.stateWords(job.state));
    setText(this.percent, words.percent(job.fraction));
    this.bar.update(job.fraction);
    setText(this.facts, factsOf(job, several).join(" · "));
  }
}

/** The second line: what the query has, when it ends, and what was promised to it. */
export function factsOf(job, several) {
  const running = !words.isOver(job.state) && job.state !== "QUEUED";
  return [
    words.endWords(job),
    running && job.share_slots ? `${words.slots(job.used_slots)} of ${words.slots(job.share_slots)} ${job.share_slots === 1 ? "slot" : "slots"}` : null,
    job.plan ? `plan ${job.plan}` : null,
    job.switches ? `${job.switches} ${job.switches === 1 ? "switch" : "switches"}` : null,
    job.group ? "a step of a sweep" : null,
    several && job.tenant ? job.tenant : null,
    job.deadline !== null && job.deadline !== undefined ? deadlineWords(job) : null,
    job.rho !== null && job.rho !== undefined ? `ρ ${job.rho.toFixed(2)}` : null,
    job.whole ? "runs whole" : null,
  ].filter(Boolean);
}

function deadlineWords(job) {
  const at = `deadline ${words.clockTime(job.deadline)}`;
  if (!job.late || job.late <= 0) return at;
  return [`${at}, late`, ...(job.helps || [])].join("; ");
}

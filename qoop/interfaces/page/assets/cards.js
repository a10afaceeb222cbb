// What a click opens: a decision, a stage, and the questions before something is lost.

import { h, openDialog, setStyle } from "./dom.js";
import * as words from "./words.js";

/** The title of a decision in a line. */
export function decisionTitle(decision) {
  if (decision.switched) return `From plan ${decision.running ?? words.NONE} to plan ${decision.chosen}`;
  return `Stays with plan ${decision.chosen ?? decision.running ?? words.NONE}`;
}

/** Candidates as bars, the fastest first. */
export function candidateBars(decision) {
  const known = decision.candidates.filter((one) => one.seconds !== null && one.seconds !== undefined);
  const most = Math.max(...known.map((one) => one.seconds), 1e-9);
  const sorted = [...known].sort((a, b) => a.seconds - b.seconds);
  return h("ul", { class: "candidates" }, sorted.map((one) => candidateBar(one, decision, most)));
}

function candidateBar(one, decision, most) {
  const bar = h("span", { class: "filled" });
  setStyle(bar, "width", `${Math.max(1, (100 * one.seconds) / most)}%`);
  const roles = [one.plan === decision.running ? "runs" : null, one.plan === decision.chosen ? "chosen" : null].filter(Boolean);
  return h(
    "li",
    { class: one.plan === decision.chosen ? "chosen" : null },
    h("span", {}, `Plan ${one.plan}`),
    h("span", { class: "rail" }, bar),
    h("span", { class: "number" }, words.seconds(one.seconds)),
    h("span", { class: "roles" }, roles.join(", ")),
  );
}

/** A card with one decision; arrows lead to the others. among: those that share its mark, each of which is a click away. */
export function openDecision(view, n, start, among = [n]) {
  const decision = view.decisions[n];
  const step = (to, label, text) =>
    h("button", { type: "button", disabled: !view.decisions[to], "aria-label": label, onclick: () => openDecision(view, to, start) }, text);
  const dialog = openDialog(
    decisionTitle(decision),
    [
      h("p", { class: "note" }, `Decision ${n + 1} of ${view.decisions.length}, ${words.seconds(decision.at - start)} after the start`),
      h("p", { class: "words" }, decision.words),
      facts([
        ["Cause", decision.cause],
        ["Before", decision.before ? words.room(decision.before) : null],
        ["After", decision.after ? words.room(decision.after) : null],
        ["Reason", decision.reason],
        ["Taken over", decision.kept.length ? `${decision.kept.length} stages: ${decision.kept.join(", ")}` : decision.switched ? "nothing" : null],
        ["Planner", decision.planner_seconds === null ? null : `took ${words.seconds(decision.planner_seconds)}`],
      ]),
      decision.candidates.length ? [h("h3", {}, "What the plans would have taken from then on"), candidateBars(decision)] : null,
      among.length > 1 ? neighbours(view, n, start, among) : null,
    ].flat(),
    [step(n - 1, "The decision before", "← Before"), step(n + 1, "The next decision", "Next →")],
  );
  dialog.classList.add("decision");
  dialog.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: n - 1, ArrowRight: n + 1 }[event.key];
    if (view.decisions[to]) openDecision(view, to, start);
  });
}

/** The decisions that share a mark of the timeline. */
function neighbours(view, n, start, among) {
  const line = (to) => {
    const title = `${words.clockTime(view.decisions[to].at - start, true)}  ${decisionTitle(view.decisions[to])}`;
    const open = () => openDecision(view, to, start, among);
    return h("li", {}, h("button", { type: "button", class: "quiet link", disabled: to === n, onclick: open }, title));
  };
  return [h("h3", {}, `${among.length} decisions at this mark`), h("ul", { class: "neighbours" }, among.map(line))];
}

export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", {}, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function openStage(view, id, plan) {
  const stage = view.stages.find((one) => one.id === id && one.plan === plan) ?? view.stages.find((one) => one.id === id);
  if (!stage) return;
  openDialog(`Stage ${stage.id} of plan ${stage.plan}`, [
    h("p", { class: "words" }, stage.label),
    facts([
      ["Tasks", `${stage.done} of ${stage.tasks} done${stage.running ? `, ${stage.running} running` : ""}`],
      ["Rows", pair(words.rows, stage.rows_estimated, stage.rows)],
      ["Time", pair(words.seconds, stage.seconds_estimated, stage.seconds)],
      ["Output", stage.bytes === null ? null : words.bytes(stage.bytes)],
      ["Spilled", stage.spilled ? words.bytes(stage.spilled) : null],
      ["Peak memory", stage.peak_memory === null ? null : words.bytes(stage.peak_memory)],
      ["Read", stage.read === null ? null : words.bytes(stage.read)],
      ["CPU", stage.cpu_seconds === null ? null : words.seconds(stage.cpu_seconds)],
      ["Inputs", stage.inputs.join(", ")],
      ["Taken over", stage.carried ? "its outputs were made by an earlier plan" : null],
      ["Runs whole", stage.opaque],
    ]),
    stage.sql ? h("pre", { tabindex: 0 }, stage.sql) : null,
  ]);
}

function pair(show, estimated, found) {
  const known = (value) => value !== null && value !== undefined;
  if (!known(estimated) && !known(found)) return null;
  if (!known(found)) return `about ${show(estimated)} estimated`;
  return known(estimated) ? `${show(found)}, ${show(estimated)} estimated (${words.factor(estimated, found) || "not to be compared"})` : show(found);
}

/** Asks before something is lost; `act` runs on yes, and a refusal is told in the dialog. */
export function confirm(title, text, yes, act) {
  const refusal = h("p", { class: "error", role: "alert" });
  const button = h("button", { type: "button", class: "danger", onclick: () => attempt(dialog, button, refusal, act) }, yes);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, "Back");
  const dialog = openDialog(title, [h("p", {}, text), refusal], [no, button]);
  no.focus();
}

async function attempt(dialog, button, refusal, act) {
  button.disabled = true;
  refusal.textContent = "";
  try {
    const answer = await act();
    dialog.close();
    if (answer?.path) openDialog("Suspended", h("p", {}, "It can be resumed from ", h("code", {}, answer.path)));
  } catch (error) {
    refusal.textContent = error.message;
    button.disabled = false;
  }
}

/** Slots and memory of the session; says what a smaller session does to tasks that run. */
export function openResize(overview, act) {
  const sum = (name) => overview.machines.reduce((total, machine) => total + machine[name], 0);
  const [slots, memory, used] = [sum("slots"), sum("memory"), sum("used_slots")];
  const slotsField = h("input", { type: "number", min: 0, step: 1, value: slots, required: true, name: "slots" });
  const memoryField = h("input", { type: "number", min: 0.01, step: "any", value: Math.round(memory / 1e7) / 100, required: true, name: "memory" });
  const warning = h("p", { class: "warning", role: "status" });
  const refusal = h("p", { class: "error", role: "alert" });
  const button = h("button", { type: "submit", form: "resize-form" }, "Resize");
  const warn = () => {
    const fewer = Number(slotsField.value) < used - 1e-9;
    const lost = `${words.slots(used)} slots are in use: tasks that no longer fit stop and run again later.`;
    warning.textContent = fewer ? lost : "";
  };
  const send = (event) => {
    event.preventDefault();
    const body = { slots: Number(slotsField.value) };
    if (memoryField.value !== memoryField.defaultValue) body.memory = Math.round(Number(memoryField.value) * 1e9);
    attempt(dialog, button, refusal, () => act(body));
  };
  const form = h(
    "form",
    { id: "resize-form", onsubmit: send, oninput: warn },
    h("label", {}, "Slots", slotsField),
    h("label", {}, "Memory in GB", memoryField),
    warning,
    refusal,
  );
  const dialog = openDialog("Resize the session", form, [h("button", { type: "button", onclick: () => dialog.close() }, "Back"), button]);
  slotsField.select();
}

// Sweeps: a line a trial, the curves of their metrics, and the slots of each kind over time.

import { h, refill, s, whenChanged } from "./dom.js";
import { table } from "./table.js";
import * as words from "./words.js";

const WIDE = 560;
const HIGH = 120;
const LOW = 64;
const KIND_WORDS = { promising: "promising", opportunistic: "opportunistic", poor: "poor", "": "not predicted yet" };
const STATE_WORDS = { WAITING: "waits", RUNNING: "runs", COMPLETE: "complete", PRUNED: "ended early", FAIL: "failed" };

export class SweepCards {
  constructor() {
    this.element = h("div", { class: "sweeps" });
    this.update = whenChanged((sweeps) => refill(this.element, sweeps.map(card)));
  }
}

function card(sweep) {
  const more = sweep.total - sweep.trials.length;
  return h(
    "section",
    { class: "card sweep", "data-key": `sweep-${sweep.name}` },
    h("h2", {}, `Sweep ${sweep.name}`),
    h("p", { class: "note" }, sweep.summary),
    curves(sweep),
    split(sweep.split),
    table(["Trial", "State", "Kind", "Chance", "Metric", "Steps", "Slot time", "Setting"], sweep.trials.map(cells), {
      text: [1, 2, 7],
      wide: 7,
      label: `Trials of ${sweep.name}`,
    }),
    more > 0 ? h("p", { class: "note" }, `${more} more trials`) : null,
  );
}

function cells(trial) {
  return [
    trial.number,
    STATE_WORDS[trial.state] ?? trial.state,
    trial.kind || words.NONE,
    trial.chance === null ? words.NONE : words.percent(trial.chance),
    trial.value === null ? words.NONE : String(trial.value),
    trial.steps,
    words.seconds(trial.seconds),
    trial.why ? `${trial.params}: ${trial.why}` : trial.params,
  ];
}

function curves(sweep) {
  const drawn = sweep.trials.map((trial) => ({ ...trial, curve: trial.curve.filter(([, value]) => value !== null) })).filter((trial) => trial.curve.length > 1);
  if (!drawn.length) return null;
  const points = drawn.flatMap((trial) => trial.curve);
  const last = Math.max(...points.map(([step]) => step));
  const [least, most] = [Math.min(...points.map(([, value]) => value)), Math.max(...points.map(([, value]) => value))];
  const x = (step) => (WIDE * (step - 1)) / Math.max(1, last - 1);
  const y = (value) => HIGH - 3 - ((HIGH - 6) * (value - least)) / (most - least || 1);
  const line = (trial) =>
    s(
      "polyline",
      { class: trial.number === sweep.best ? "curve best" : `curve ${trial.kind || "new"}`, points: trial.curve.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ") },
      s("title", {}, `trial ${trial.number}: ${trial.params}, ${trial.value}`),
    );
  return h(
    "figure",
    { class: "steps" },
    h("figcaption", {}, `Metric by step: ${least} to ${most}, of the ${drawn.length} best trials`),
    s(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `The metric of ${drawn.length} trials by step` },
      drawn.toReversed().map(line),
    ),
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, "step 1"), h("span", {}, `step ${last}`)),
  );
}

/** The slots of each kind of trials over time, one above the other. */
function split(of) {
  if (!of.parts.length) return null;
  const most = Math.max(...of.parts.map((part) => part.reduce((sum, slots) => sum + slots, 0)), 1e-9);
  const wide = WIDE / of.parts.length;
  const bars = of.parts.flatMap((part, n) => {
    let below = 0;
    return part.map((slots, kind) => {
      const high = (LOW * slots) / most;
      below += high;
      return high ? s("rect", { class: `kind ${of.kinds[kind] || "new"}`, x: n * wide, y: LOW - below, width: wide, height: high }) : null;
    });
  });
  const seen = of.kinds.filter((_, kind) => of.parts.some((part) => part[kind]));
  return h(
    "figure",
    { class: "steps" },
    h("figcaption", {}, "Slots over time, by the kind of the trial: ", seen.map((kind) => h("span", { class: `key ${kind || "new"}` }, KIND_WORDS[kind]))),
    s("svg", { viewBox: `0 0 ${WIDE} ${LOW}`, preserveAspectRatio: "none", role: "img", "aria-label": `Slots over time: ${seen.map((kind) => KIND_WORDS[kind]).join(", ")}` }, bars),
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, words.clockTime(of.from, true)), h("span", {}, words.clockTime(of.to, true))),
  );
}

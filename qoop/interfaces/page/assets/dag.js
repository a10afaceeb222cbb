// The stages of a plan as a graph: layers from the sources on the left to the answer on the right.

import { refill, s, setStyle, whenChanged } from "./dom.js";
import { seriesOf } from "./colours.js";
import * as words from "./words.js";

const BOX = 174;
const HIGH = 60;
const GAP = 30;
const BETWEEN = 16;
const EDGE = 6;

/** {id: layer}: a stage stands one layer to the right of the last of its inputs. */
export function layersOf(stages) {
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  const layer = new Map();
  const visit = (id, above) => {
    if (layer.has(id)) return layer.get(id);
    if (above.has(id)) return 0;
    const inputs = byId.get(id).inputs.filter((input) => byId.has(input));
    const deepest = Math.max(-1, ...inputs.map((input) => visit(input, new Set([...above, id]))));
    layer.set(id, deepest + 1);
    return deepest + 1;
  };
  for (const stage of stages) visit(stage.id, new Set());
  return pulledRight(stages, layer);
}

/** A source that is needed late stands next to what needs it, so that edges stay short. */
function pulledRight(stages, layer) {
  const consumers = consumersOf(stages);
  for (const stage of [...stages].sort((a, b) => layer.get(b.id) - layer.get(a.id))) {
    const nearest = Math.min(...(consumers.get(stage.id) ?? []).map((id) => layer.get(id)));
    if (Number.isFinite(nearest)) layer.set(stage.id, nearest - 1);
  }
  return layer;
}

function consumersOf(stages) {
  const consumers = new Map();
  for (const stage of stages) for (const id of stage.inputs) consumers.set(id, [...(consumers.get(id) ?? []), stage.id]);
  return consumers;
}

/** Rows of ids by layer, each ordered by the mean place of its neighbours: a few sweeps untangle most edges. */
export function orderOf(stages, layer) {
  const rows = [];
  for (const stage of stages) (rows[layer.get(stage.id)] ??= []).push(stage.id);
  const inputs = new Map(stages.map((stage) => [stage.id, stage.inputs]));
  const consumers = consumersOf(stages);
  for (let sweep = 0; sweep < 6; sweep += 1) {
    const forth = sweep % 2 === 0;
    const place = new Map();
    const neighbours = forth ? inputs : consumers;
    for (const row of forth ? rows : [...rows].reverse()) {
      const wish = (id) => mean((neighbours.get(id) ?? []).filter((other) => place.has(other)).map((other) => place.get(other)));
      const wishes = new Map(row.map((id, n) => [id, wish(id) ?? (n + 0.5) / row.length]));
      row.sort((a, b) => wishes.get(a) - wishes.get(b));
      row.forEach((id, n) => place.set(id, (n + 0.5) / row.length));
    }
  }
  return rows;
}

const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);

/** {places: {id: [x, y]}, width, height} of the boxes. */
export function layout(stages) {
  const rows = orderOf(stages, layersOf(stages));
  const tallest = Math.max(1, ...rows.map((row) => row.length));
  const height = tallest * (HIGH + BETWEEN) - BETWEEN + 2 * EDGE;
  const places = new Map();
  rows.forEach((row, layer) => {
    const top = (height - row.length * (HIGH + BETWEEN) + BETWEEN) / 2;
    row.forEach((id, n) => places.set(id, [EDGE + layer * (BOX + GAP), top + n * (HIGH + BETWEEN)]));
  });
  return { places, width: rows.length * (BOX + GAP) - GAP + 2 * EDGE, height };
}

export class Dag {
  constructor(element, openStage) {
    this.element = element;
    this.openStage = openStage;
    this.update = whenChanged(([stages, names]) => this.draw(stages, names));
  }

  draw(stages, names) {
    const { places, width, height } = layout(stages);
    const edges = stages.flatMap((stage) => stage.inputs.filter((id) => places.has(id)).map((id) => edge(places.get(id), places.get(stage.id))));
    const boxes = stages.map((stage) => this.box(stage, places.get(stage.id), seriesOf(names, stage.id)));
    const view = { class: "dag", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${stages.length} stages` };
    const graph = s("svg", view, edges, boxes);
    setStyle(graph, "max-width", `${width}px`);
    setStyle(graph, "min-width", `${0.85 * width}px`); // a little smaller if that makes it fit; then it scrolls
    refill(this.element, graph);
  }

  box(stage, [x, y], series) {
    const done = stage.tasks ? stage.done / stage.tasks : 0;
    const open = () => this.openStage(stage.id, stage.plan);
    const key = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open();
    };
    const text = (dx, dy, content, kind, anchor) => s("text", { x: dx, y: dy, class: kind, "text-anchor": anchor }, content);
    const bar = BOX - 20;
    return s(
      "g",
      {
        class: `stage series-${series} ${stateOf(stage)}`,
        transform: `translate(${x} ${y})`,
        role: "button",
        tabindex: 0,
        "data-key": `stage ${stage.id}`,
        "aria-label": `Stage ${stage.id}, ${stage.label}: ${stage.done} of ${stage.tasks} tasks done${stage.carried ? ", taken over" : ""}`,
        onclick: open,
        onkeydown: key,
      },
      s("title", {}, `${stage.id}: ${stage.label}${stage.opaque ? `; runs whole: ${stage.opaque}` : ""}`),
      s("rect", { class: "box", width: BOX, height: HIGH, rx: 6 }),
      s("rect", { class: "side", width: 6, height: HIGH, rx: 3 }),
      text(14, 19, stage.id, "id"),
      text(BOX - 10, 19, stage.carried ? "taken over" : stage.opaque ? "runs whole" : "", "badge", "end"),
      text(14, 35, words.shorten(stage.label, 24), "label"),
      text(14, 55, `${stage.done}/${stage.tasks}`, "count"),
      text(BOX - 10, 55, timeWords(stage), "count", "end"),
      s("rect", { class: "rail", x: 10, y: 41, width: bar, height: 3, rx: 1.5 }),
      s("rect", { class: "filled", x: 10, y: 41, width: Math.max(0, bar * Math.min(1, done)), height: 3, rx: 1.5 }),
    );
  }
}

function stateOf(stage) {
  if (stage.carried) return "carried";
  if (stage.tasks && stage.done >= stage.tasks) return "done";
  return stage.running ? "running" : stage.queued ? "queued" : "waiting";
}

function timeWords(stage) {
  if (stage.running) return `${stage.running} running`;
  if (stage.seconds !== null && stage.seconds !== undefined) return words.seconds(stage.seconds);
  return stage.seconds_estimated === null || stage.seconds_estimated === undefined ? "" : `about ${words.seconds(stage.seconds_estimated)}`;
}

function edge([fromX, fromY], [toX, toY]) {
  const [x1, y1, x2, y2] = [fromX + BOX, fromY + HIGH / 2, toX, toY + HIGH / 2];
  const bend = Math.max(20, (x2 - x1) / 2);
  return s("path", { class: "edge", d: `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` });
}

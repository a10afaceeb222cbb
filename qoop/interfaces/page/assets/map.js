// Which plan is best at which slots and memory, and the path that the share has taken over it.

import { refill, s, whenChanged } from "./dom.js";
import { seriesOf } from "./colours.js";
import * as words from "./words.js";

const CELL_WIDE = 44;
const CELL_HIGH = 26;
const LEFT = 62;
const TOP = 8;
const UNDER = 40;

/** The place of a value on an axis of ascending values, in cells from the first cell's middle. */
export function placeOn(axis, value) {
  const n = axis.findIndex((step) => step >= value);
  if (n === 0) return axis[0] > 0 ? Math.max(-0.5, -0.5 * (1 - value / axis[0])) : 0;
  if (n < 0) return axis.length - 1 + Math.min(0.5, axis.at(-1) > 0 ? 0.5 * (value / axis.at(-1) - 1) : 0);
  return n - 1 + (value - axis[n - 1]) / (axis[n] - axis[n - 1]);
}

export class PlanMap {
  constructor(element) {
    this.element = element;
    this.update = whenChanged(([map, plans, over]) => this.draw(map, plans, over));
  }

  draw(map, plans, over) {
    if (!map || !map.slots.length || !map.memory.length) {
      refill(this.element, note());
      return;
    }
    const width = LEFT + map.slots.length * CELL_WIDE + 10;
    const height = TOP + map.memory.length * CELL_HIGH + UNDER;
    const x = (slots) => LEFT + (placeOn(map.slots, slots) + 0.5) * CELL_WIDE;
    const y = (memory) => TOP + (map.memory.length - 0.5 - placeOn(map.memory, memory)) * CELL_HIGH;
    refill(
      this.element,
      s(
        "svg",
        { class: "map", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": labelOf(map) },
        map.memory.flatMap((memory, row) => map.slots.map((slots, column) => cell(map, plans, row, column))),
        axes(map, height),
        path(map.path, x, y, over),
      ),
    );
  }
}

function note() {
  const text = document.createElement("p");
  text.className = "note";
  text.textContent = "There is no map: this query has one plan, or its plans are not known yet.";
  return text;
}

function labelOf(map) {
  const [slots, memory] = map.path.at(-1)?.slice(1) ?? [];
  const now = slots === undefined ? "" : `; the share is ${words.room([slots, memory])}`;
  const names = [...new Set(map.best.flat().filter(Boolean))].sort();
  return `Map of the best plan by slots and memory: plans ${names.join(", ")}${now}`;
}

function cell(map, plans, row, column) {
  const best = map.best[row]?.[column] ?? null;
  const seconds = map.seconds?.[row]?.[column];
  const x = LEFT + column * CELL_WIDE;
  const y = TOP + (map.memory.length - 1 - row) * CELL_HIGH;
  const where = words.room([map.slots[column], map.memory[row]]);
  return s(
    "g",
    { class: best === null ? "cell none" : `cell series-${seriesOf(plans, best)}` },
    s("title", {}, best === null ? `${where}: not known` : `${where}: plan ${best}, ${words.seconds(seconds)}`),
    s("rect", { x: x + 0.5, y: y + 0.5, width: CELL_WIDE - 1, height: CELL_HIGH - 1 }),
    s("text", { x: x + 4, y: y + 11, class: "name" }, best ?? ""),
  );
}

function axes(map, height) {
  const bottom = TOP + map.memory.length * CELL_HIGH;
  const every = Math.ceil(map.memory.length / 8);
  return s(
    "g",
    { class: "axes" },
    map.slots.map((slots, n) => s("text", { x: LEFT + (n + 0.5) * CELL_WIDE, y: bottom + 15, "text-anchor": "middle" }, words.slots(slots))),
    map.memory.map((memory, n) =>
      n % every ? null : s("text", { x: LEFT - 6, y: bottom - (n + 0.5) * CELL_HIGH + 4, "text-anchor": "end" }, words.bytes(memory)),
    ),
    s("text", { x: LEFT, y: height - 6 }, "slots →  memory ↑"),
  );
}

/** The path: from the ring, past the small dots, to the large one. */
function path(points, x, y, over) {
  if (!points.length) return null;
  const places = points.map(([, slots, memory]) => [x(slots), y(memory)]);
  const dot = ([at, slots, memory], n) =>
    s(
      "circle",
      { cx: places[n][0], cy: places[n][1], r: n === points.length - 1 ? 6 : 3.5, class: n === points.length - 1 && !over ? "here" : n ? "past" : "start" },
      s("title", {}, `${words.clockTime(at, true)}: ${words.room([slots, memory])}`),
    );
  return s("g", { class: "path" }, s("path", { class: "under", d: lineOf(places) }), s("path", { d: lineOf(places) }), points.map(dot));
}

const lineOf = (places) => `M${places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;

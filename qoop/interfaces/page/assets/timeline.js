// The tasks over time: a canvas that grows, with a lane for each slot and a button for each decision.

import { drawCalmly, h, hint, refill, setStyle, setText } from "./dom.js";
import { colour, seriesOf } from "./colours.js";
import * as words from "./words.js";

const STRIP = 50;
const AXIS = 20;
const LEFT = 8;
const RIGHT = 10;
const LIVE = 200; // milliseconds between two pictures of a running query
const MARK = 24; // pixels of a mark: closer ones share one
const ROOM = 1.2; // what a picture that grows is drawn longer than it need be
const LEAST = 0.6; // the part of it that must be in use

/** Lanes: each machine's tasks, put one after the other where they do not overlap. */
export function lanesOf(tasks, now) {
  const machines = new Map();
  for (const task of tasks) {
    if (task.state === "CARRIED") continue;
    if (!machines.has(task.machine)) machines.set(task.machine, []);
    machines.get(task.machine).push(task);
  }
  const lanes = [];
  for (const machine of [...machines.keys()].sort()) {
    const ends = [];
    for (const task of machines.get(machine).sort((a, b) => a.start - b.start)) {
      let lane = ends.findIndex((end) => end <= task.start + 1e-4);
      if (lane < 0) lane = ends.push(0) - 1;
      ends[lane] = task.end ?? now;
      (lanes[machineStart(lanes, machine) + lane] ??= { machine, tasks: [] }).tasks.push(task);
    }
  }
  return lanes;
}

function machineStart(lanes, machine) {
  const first = lanes.findIndex((lane) => lane.machine === machine);
  return first < 0 ? lanes.length : first;
}

export class Timeline {
  constructor({ openDecisions, openStage, clock }) {
    Object.assign(this, { openDecisions, openStage, clock });
    this.canvas = h("canvas", { tabindex: 0, role: "img" });
    this.marks = h("div", { class: "marks" });
    this.box = h("div", { class: "timeline" }, this.canvas, this.marks);
    this.legend = h("p", { class: "note" });
    this.element = h("div", {}, this.box, h("div", { class: "under" }, this.legend, this.zoomButtons()));
    this.zoomed = null;
    this.until = 0; // the end of the picture while the query runs
    this.lanes = [];
    this.frames = 0;
    this.listen();
  }

  zoomButtons() {
    const button = (label, text, act) => h("button", { type: "button", class: "quiet", "aria-label": label, onclick: act }, text);
    return h(
      "div",
      { class: "buttons", role: "group", "aria-label": "Zoom of the timeline" },
      button("Zoom out", "−", () => this.zoom(2)),
      button("Zoom in", "+", () => this.zoom(0.5)),
      button("Whole time", "All", () => this.zoom(Infinity)),
    );
  }

  listen() {
    new ResizeObserver(() => this.drawSoon()).observe(this.box);
    this.box.addEventListener("pointerleave", () => this.drawSoon());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => hint(""));
    this.canvas.addEventListener("click", (event) => {
      const task = this.taskAt(event);
      if (task) this.openStage(task.stage, task.plan);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  update(view) {
    const other = this.view?.id !== view.id;
    this.view = view;
    if (other) [this.zoomed, this.until] = [null, 0];
    this.names = [...new Set(view.stages.map((stage) => stage.id))];
    this.lanes = lanesOf(view.tasks, this.clock());
    const counts = `${view.tasks.length} ${view.tasks.length === 1 ? "task" : "tasks"} on ${this.lanes.length} ${this.lanes.length === 1 ? "lane" : "lanes"}`;
    this.canvas.setAttribute("aria-label", `Timeline: ${counts}, ${view.decisions.length} decisions`);
    setText(this.legend, `${counts}. Above: the share in slots. A diamond is a decision; ⇄ one that changed the plan.`);
    this.drawSoon();
  }

  /** From the start to the end, or to the end that is expected. While the query runs it grows by steps, and not under
   * the pointer as long as it need not: marks that run away cannot be clicked. */
  whole() {
    const view = this.view;
    const from = view.started ?? view.submitted;
    const runs = view.ended === null || view.ended === undefined;
    const soFar = 1.02 * Math.max((view.ended ?? this.clock()) - from, 0.2);
    const wanted = soFar + (runs ? Math.min(view.left?.likely ?? 0, soFar) : 0);
    const [drawn, pointed] = [this.until - from, this.box.matches(":hover")];
    const fits = pointed ? soFar <= drawn : runs && wanted <= drawn && LEAST * drawn <= wanted;
    if (!fits) this.until = from + wanted * (runs ? ROOM : 1);
    return [from, this.until];
  }

  span() {
    return this.zoomed ?? this.whole();
  }

  zoom(by, around = null) {
    if (!this.view) return;
    const [from, to] = this.span();
    const [first, last] = this.whole();
    const width = (to - from) * by;
    if (!(width < last - first)) this.zoomed = null;
    else {
      const middle = around ?? (from + to) / 2;
      const start = Math.max(first, Math.min(last - width, middle - (middle - from) * by));
      this.zoomed = [start, start + Math.max(width, 0.02)];
    }
    this.drawSoon();
  }

  pan(share) {
    if (!this.zoomed) return;
    const [first, last] = this.whole();
    const [from, to] = this.zoomed;
    const by = Math.max(first - from, Math.min(last - to, share * (to - from)));
    this.zoomed = [from + by, to + by];
    this.drawSoon();
  }

  key(event) {
    const act = { "+": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.zoom(Infinity), ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event.offsetX));
  }

  drawSoon() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = null;
      if (this.view && this.element.isConnected) drawCalmly(this, () => this.draw());
    });
  }

  /** While the query runs, its bars grow between two messages. */
  grow() {
    clearTimeout(this.timer);
    const running = this.view && this.element.isConnected && !words.isOver(this.view.state);
    if (!running) return;
    this.timer = setTimeout(() => {
      if (!document.hidden) this.drawSoon();
      this.grow();
    }, LIVE);
  }

  stop() {
    clearTimeout(this.timer);
  }

  x(at) {
    const [from, to] = this.drawn;
    return LEFT + ((this.width - LEFT - RIGHT) * (at - from)) / (to - from);
  }

  timeAt(x) {
    const [from, to] = this.drawn ?? this.whole();
    return from + ((x - LEFT) * (to - from)) / (this.width - LEFT - RIGHT);
  }

  draw() {
    this.frames += 1;
    this.drawn = this.span();
    this.width = Math.max(200, this.box.clientWidth);
    this.laneHigh = Math.max(5, Math.min(22, 220 / Math.max(1, this.lanes.length)));
    this.height = STRIP + AXIS + Math.max(2, this.lanes.length) * this.laneHigh + 6;
    const pen = this.clean();
    this.drawShares(pen);
    this.drawAxis(pen);
    this.drawPlans(pen);
    this.lanes.forEach((lane, n) => lane.tasks.forEach((task) => this.drawTask(pen, task, n)));
    this.drawMachines(pen);
    this.drawNow(pen);
    this.placeMarks();
  }

  clean() {
    const dots = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(this.width * dots), Math.round(this.height * dots)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      [this.canvas.width, this.canvas.height] = [wide, high];
      setStyle(this.canvas, "height", `${this.height}px`);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    this.font ??= getComputedStyle(document.body).fontFamily;
    pen.font = `11px ${this.font}`;
    return pen;
  }

  drawShares(pen) {
    const steps = this.view.shares;
    if (!steps.length) return;
    const most = Math.max(...steps.map(([, slots]) => slots), 1e-9);
    const y = (slots) => 24 - (9 * slots) / most;
    const end = this.x(this.view.ended ?? this.clock());
    const path = new Path2D();
    steps.forEach(([at, slots], n) => {
      const x = Math.min(end, this.x(at));
      if (n) path.lineTo(x, y(steps[n - 1][1]));
      else path.moveTo(x, y(slots));
      path.lineTo(x, y(slots));
    });
    path.lineTo(end, y(steps.at(-1)[1]));
    pen.strokeStyle = colour("--accent");
    pen.lineWidth = 1.5;
    pen.stroke(path);
    pen.fillStyle = colour("--muted");
    steps.forEach(([at, slots], n) => this.shareLabel(pen, steps, n, Math.max(LEFT, this.x(at)), slots));
  }

  shareLabel(pen, steps, n, x, slots) {
    if (n && steps[n - 1][1] === slots) return;
    const next = n + 1 < steps.length ? this.x(steps[n + 1][0]) : this.width - RIGHT;
    const text = `${words.slots(slots)} ${slots === 1 ? "slot" : "slots"}`;
    if (next - x > pen.measureText(text).width + 6) pen.fillText(text, x + 2, 11);
  }

  drawAxis(pen) {
    const [from, to] = this.drawn;
    const step = niceStep((to - from) / Math.max(2, this.width / 90));
    const base = this.view.started ?? this.view.submitted;
    const bottom = this.height - AXIS;
    pen.fillStyle = colour("--muted");
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    pen.textAlign = "center";
    for (let at = base + Math.ceil((from - base) / step) * step; at <= to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, STRIP);
      pen.lineTo(x, bottom + 3);
      pen.stroke();
      if (x > 14 && x < this.width - 14) pen.fillText(words.clockTime(at - base, step < 1), x, this.height - 5);
    }
    pen.textAlign = "left";
  }

  /** A dashed line where the plan changed. */
  drawPlans(pen) {
    pen.strokeStyle = colour("--ink");
    pen.setLineDash([3, 3]);
    for (const decision of this.view.decisions.filter((one) => one.switched)) {
      const x = Math.round(this.x(decision.at)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, STRIP);
      pen.lineTo(x, this.height - AXIS);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  drawTask(pen, task, lane) {
    const end = task.end ?? this.view.ended ?? this.clock();
    const [x, right] = [this.x(task.start), this.x(end)];
    if (right < 0 || x > this.width) return;
    const width = Math.max(1, right - x - (right - x > 4 ? 1 : 0));
    const y = STRIP + lane * this.laneHigh + 1;
    const high = this.laneHigh - 2;
    const series = seriesOf(this.names, task.stage);
    pen.globalAlpha = { RUNNING: 0.6, SUCCEEDED: 1, QUEUED: 0.15 }[task.state] ?? 0.3;
    pen.fillStyle = colour(`--series-${series}`);
    pen.fillRect(x, y, width, high);
    pen.globalAlpha = 1;
    if (task.state === "RUNNING" && task.fraction) pen.fillRect(x, y + high - 3, width * task.fraction, 3);
    if (task.state === "FAILED" || task.state === "STOPPED") this.strike(pen, task.state, x, y, width, high);
    if (width > 22 && high > 10) this.label(pen, task, series, x, y + high / 2 + 4, width);
  }

  strike(pen, state, x, y, width, high) {
    pen.strokeStyle = colour(state === "FAILED" ? "--bad" : "--muted");
    pen.lineWidth = state === "FAILED" ? 2 : 1;
    pen.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 1), high - 1);
    pen.beginPath();
    pen.moveTo(x, y + high);
    pen.lineTo(x + width, y);
    pen.stroke();
  }

  label(pen, task, series, x, y, width) {
    const text = `${task.stage}${task.slots > 1 ? ` ×${words.slots(task.slots)}` : ""}`;
    const shown = pen.measureText(text).width < width - 6 ? text : task.stage;
    if (pen.measureText(shown).width > width - 4) return;
    pen.fillStyle = task.state === "SUCCEEDED" ? colour(`--on-series-${series}`) : colour("--ink");
    pen.fillText(shown, Math.max(x, 0) + 4, y);
  }

  drawMachines(pen) {
    pen.strokeStyle = colour("--muted");
    pen.fillStyle = colour("--muted");
    pen.lineWidth = 1;
    const several = new Set(this.lanes.map((lane) => lane.machine)).size > 1;
    this.lanes.forEach((lane, n) => {
      if (!several || !n || this.lanes[n - 1].machine === lane.machine) return;
      const y = Math.round(STRIP + n * this.laneHigh) + 0.5;
      pen.beginPath();
      pen.moveTo(0, y);
      pen.lineTo(this.width, y);
      pen.stroke();
    });
  }

  drawNow(pen) {
    const view = this.view;
    if (words.isOver(view.state)) return;
    const now = this.x(this.clock());
    const bottom = this.height - AXIS;
    if (view.left) {
      const [least, most] = [this.clock() + view.left.least, this.clock() + view.left.most].map((at) => Math.min(this.width, this.x(at)));
      pen.globalAlpha = 0.12;
      pen.fillStyle = colour("--accent");
      pen.fillRect(least, STRIP, Math.max(2, most - least), bottom - STRIP);
      pen.globalAlpha = 1;
    }
    pen.strokeStyle = colour("--accent");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(now, STRIP);
    pen.lineTo(now, bottom);
    pen.stroke();
  }

  /** Decisions closer than a mark is wide share one; its card is that of the first switch, and lists them. */
  groups() {
    const groups = [];
    this.view.decisions.forEach((decision, n) => {
      const x = this.x(decision.at);
      if (x < -MARK || x > this.width + MARK) return;
      const last = groups.at(-1);
      if (last && x - last.x < MARK) last.members.push(n);
      else groups.push({ x, members: [n] });
    });
    return groups;
  }

  placeMarks() {
    const groups = this.groups();
    const now = JSON.stringify(groups.map((group) => group.members));
    if (now !== this.markedBefore) {
      this.markedBefore = now;
      refill(this.marks, groups.map((group) => this.mark(group)));
    }
    groups.forEach((group, n) => setStyle(this.marks.children[n], "left", `${Math.max(11, Math.min(this.width - 11, group.x))}px`));
  }

  mark(group) {
    const decisions = group.members.map((n) => this.view.decisions[n]);
    const switched = decisions.some((one) => one.switched);
    const first = `${words.clockTime(decisions[0].at, true)}: ${decisions[0].words}`;
    const label = decisions.length > 1 ? `${decisions.length} decisions from ${first}` : `Decision at ${first}`;
    const sign = switched ? "⇄" : decisions.length > 1 ? String(decisions.length) : "◆";
    return h(
      "button",
      {
        type: "button",
        class: switched ? "mark switched" : "mark",
        "aria-label": label,
        "data-key": `decision ${group.members[0]}`,
        onclick: () => this.openDecisions(group.members.find((n) => this.view.decisions[n].switched) ?? group.members[0], group.members),
        onpointerenter: (event) => hint(label, event.clientX, event.clientY),
        onpointerleave: () => hint(""),
      },
      sign,
    );
  }

  taskAt(event) {
    const lane = this.lanes[Math.floor((event.offsetY - STRIP) / (this.laneHigh ?? 1))];
    const [at, slack] = [this.timeAt(event.offsetX), (this.timeAt(2) - this.timeAt(0))];
    return lane?.tasks.find((task) => task.start - slack <= at && at <= (task.end ?? this.clock()) + slack);
  }

  point(event) {
    if (!this.view || !this.width) return;
    const task = this.taskAt(event);
    hint(task ? taskWords(task, this.view, this.clock()) : "", event.clientX, event.clientY);
    setStyle(this.canvas, "cursor", task ? "pointer" : "default");
  }
}

export function taskWords(task, view, now) {
  const stage = view.stages.find((one) => one.id === task.stage && one.plan === task.plan);
  const lines = [
    `${task.stage}, task ${task.task}, plan ${task.plan}: ${task.state.toLowerCase()}`,
    stage ? words.shorten(stage.label, 60) : null,
    `${words.seconds((task.end ?? now) - task.start)} on ${task.machine}, ${words.room([task.slots, task.memory])}`,
    task.rows !== null && task.rows !== undefined ? `${words.rows(task.rows)} rows, ${words.bytes(task.bytes)}` : null,
    task.error,
  ];
  return lines.filter(Boolean).join("\n");
}

/** 1, 2 or 5 times a power of ten below a minute; then parts of an hour. */
export function niceStep(least) {
  if (least > 20) return [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400].find((step) => step >= least) ?? 86400;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least * 0.999);
}

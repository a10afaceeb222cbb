// A trace of yesterday: a slider over its time, play and pause.

import { h, setText } from "./dom.js";
import * as words from "./words.js";

const TICK = 250;
const SPEEDS = [1, 4, 16, 64, 256];

export class Replay {
  /** `show(at)` draws the session as it stood then; the next picture is asked for when the last has come. */
  constructor(element, [from, to], show) {
    Object.assign(this, { from, to, show, at: to, playing: false, busy: false });
    this.speed = SPEEDS.find((speed) => (to - from) / speed < 90) ?? SPEEDS.at(-1);
    this.button = h("button", { type: "button", onclick: () => this.toggle() });
    this.slider = h("input", { type: "range", min: from, max: to, step: "any", value: to, "aria-label": "Time in the trace", oninput: () => this.slide() });
    this.time = h("output", { class: "number" });
    const choice = h("select", { "aria-label": "Speed", onchange: (event) => (this.speed = Number(event.target.value)) },
      SPEEDS.map((speed) => h("option", { value: speed, selected: speed === this.speed }, `${speed} ×`)));
    this.slider.addEventListener("keydown", (event) => this.key(event));
    element.replaceChildren(h("span", { class: "badge" }, "Replay"), this.button, this.slider, this.time, choice);
    element.hidden = false;
    this.told();
  }

  told() {
    setText(this.button, this.playing ? "❚❚ Pause" : "▶ Play");
    setText(this.time, `${words.clockTime(this.at - this.from)} of ${words.clockTime(this.to - this.from)}`);
    this.slider.value = this.at;
    this.slider.setAttribute("aria-valuetext", this.time.textContent);
  }

  slide() {
    this.at = Number(this.slider.value);
    this.move();
  }

  /** A native range with `step=any` moves in hundredths by keys, which is what a reader wants of an hour, too. */
  key(event) {
    const part = (this.to - this.from) / 100;
    const by = { ArrowLeft: -part, ArrowDown: -part, ArrowRight: part, ArrowUp: part, PageDown: -10 * part, PageUp: 10 * part }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.at = Math.max(this.from, Math.min(this.to, this.at + by));
    this.move();
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.at >= this.to) this.at = this.from;
    this.last = performance.now();
    this.move();
    if (this.playing) this.tick();
  }

  tick() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!this.playing) return;
      const now = performance.now();
      this.at = Math.min(this.to, this.at + ((now - this.last) / 1000) * this.speed);
      this.last = now;
      if (this.at >= this.to) this.playing = false;
      this.move();
      this.tick();
    }, TICK);
  }

  async move() {
    this.told();
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    do {
      this.again = false;
      await this.show(this.at);
    } while (this.again);
    this.busy = false;
  }
}

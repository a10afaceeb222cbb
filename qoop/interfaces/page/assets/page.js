// The page: hears the session, keeps what it told, and hands it to the panels.

import { openResize } from "./cards.js";
import { themeButton } from "./colours.js";
import { drawCalmly, h, say, setText } from "./dom.js";
import { JobPanel } from "./job.js";
import { Queries } from "./queries.js";
import { Replay } from "./replay.js";
import { SessionPanel } from "./session.js";
import { Stream, ask, merge, order } from "./wire.js";
import * as words from "./words.js";

const STATUS = {
  live: "● live",
  replay: "a recorded trace",
  connecting: "connecting…",
  reconnecting: "The connection was lost; trying again…",
  gone: "The session does not answer: it may have ended. What you see is what it told last.",
  ended: "The session has ended. What you see is what it told last.",
};

class Page {
  constructor() {
    this.overview = null;
    this.view = null;
    this.chosen = null;
    this.heardAt = 0;
    this.live = false;
    this.main = document.getElementById("main");
    this.queries = new Queries(document.getElementById("queries"), (id) => this.choose(id));
    this.session = new SessionPanel();
    this.job = new JobPanel({ back: () => this.choose(null), order: (path) => order(path), clock: () => this.clock() });
    this.note = h("p", { class: "note", role: "status" });
    this.stream = new Stream({ overview: (view) => this.heard(view), job: (view) => this.heardJob(view), status: (kind) => this.status(kind) });
    themeButton(document.getElementById("theme"), () => this.view && this.job.timeline.drawSoon());
    document.getElementById("resize").addEventListener("click", () => openResize(this.overview, (body) => order("resize", body)));
    addEventListener("hashchange", () => this.route());
    addEventListener("keydown", (event) => this.key(event));
  }

  async start() {
    this.status("connecting");
    for (;;) {
      try {
        this.heard(await ask("overview"));
        break;
      } catch {
        this.status("gone");
        await new Promise((done) => setTimeout(done, 2000));
      }
    }
    if (this.overview.span) {
      this.status("replay");
      this.replay = new Replay(document.getElementById("replay"), this.overview.span, (at) => this.showAt(at));
    }
    this.route();
  }

  /** Seconds since the session began: as told, and on from there while the session is live. */
  clock() {
    if (!this.overview) return 0;
    return this.overview.now + (this.live ? (performance.now() - this.heardAt) / 1000 : 0);
  }

  status(kind) {
    const box = document.getElementById("connection");
    this.live = kind === "live";
    box.dataset.status = kind;
    setText(box, STATUS[kind]);
    for (const button of document.querySelectorAll("#resize, .head .buttons button")) button.disabled = kind === "ended" || kind === "gone";
    if (!this.live) this.job?.timeline.stop();
  }

  heard(overview) {
    this.announce(overview);
    this.overview = overview;
    this.heardAt = performance.now();
    setText(document.getElementById("name"), overview.name);
    document.title = `${overview.name} · qoop`;
    document.getElementById("resize").hidden = !overview.can.resize;
    drawCalmly("overview", () => this.drawOverview());
  }

  drawOverview() {
    this.queries.update(this.overview, this.chosen);
    if (this.chosen === null) this.session.update(this.overview, this.clock());
  }

  /** A reader who does not see the page hears what became of the queries. */
  announce(overview) {
    const before = new Map((this.overview?.jobs ?? []).map((job) => [job.id, job.state]));
    const over = overview.jobs.filter((job) => words.isOver(job.state) && before.has(job.id) && !words.isOver(before.get(job.id)));
    if (over.length && !this.replay) say(over.map((job) => `Query ${job.id}: ${words.stateWords(job.state)}`).join(", "));
  }

  heardJob(view) {
    if (view.id !== this.chosen) return;
    if (view.gone) {
      setText(this.note, view.gone);
      this.main.replaceChildren(this.note);
      return;
    }
    const earlier = this.view?.id === view.id ? this.view : null;
    if (earlier && view.switches > earlier.switches && !this.replay) say(`Query ${view.id} changed to plan ${view.plan}`);
    this.view = merge(earlier, view);
    drawCalmly("job", () => this.drawJob());
  }

  drawJob() {
    if (!this.view) return; // another query was chosen meanwhile
    if (!this.job.element.isConnected) this.main.replaceChildren(this.job.element);
    this.job.update(this.view, this.overview);
  }

  choose(id) {
    const hash = id === null ? "#" : `#job=${encodeURIComponent(id)}`;
    if (location.hash === hash) this.main.focus({ preventScroll: true });
    else location.hash = hash;
  }

  async route() {
    const given = /^#job=(.*)$/.exec(location.hash);
    const before = this.chosen;
    this.chosen = given ? decodeURIComponent(given[1]) : null;
    document.body.classList.toggle("has-query", this.chosen !== null);
    this.queries.mark(this.chosen);
    this.view = null;
    if (this.chosen === null) this.leave(before);
    else await this.open(this.chosen);
  }

  leave(before) {
    this.job.timeline.stop();
    this.main.replaceChildren(this.session.element);
    this.session.update(this.overview, this.clock());
    if (!this.replay) this.stream.open();
    if (before !== null) this.queries.focus(before);
  }

  async open(id) {
    this.main.replaceChildren(this.note);
    setText(this.note, `Query ${id}…`);
    if (document.body.clientWidth < 800) scrollTo(0, 0);
    try {
      const view = await ask(`jobs/${encodeURIComponent(id)}`, this.replay?.at ?? null);
      if (this.chosen === id) this.heardJob(view);
    } catch (error) {
      setText(this.note, error.status === 404 ? `There is no query ${id} in this session.` : error.message);
    }
    if (this.chosen === id && !this.replay) this.stream.open(id);
  }

  /** The session as it stood at a point of its trace. */
  async showAt(at) {
    try {
      this.heard(await ask("overview", at));
      if (this.chosen !== null) this.heardJob(await ask(`jobs/${encodeURIComponent(this.chosen)}`, at));
      this.status("replay");
    } catch (error) {
      if (error.status === undefined) return this.status("gone");
      setText(this.note, error.status === 404 ? `Query ${this.chosen} had not begun yet.` : error.message);
      this.main.replaceChildren(this.note);
    }
    return undefined;
  }

  key(event) {
    if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
    if (this.chosen !== null) this.choose(null);
  }
}

const page = new Page();
page.start();
globalThis.qoopPage = page; // for those who look at it with the browser's tools

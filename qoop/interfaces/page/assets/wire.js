// What goes to and fro between the page and the session.

const WAITS = [500, 1000, 2000, 4000];

export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, at = null) {
  const response = await fetch(at === null ? path : `${path}?at=${at}`, { cache: "no-store" });
  if (!response.ok) throw new HttpError(response.status, await reasonOf(response));
  return response.json();
}

export async function order(path, body = {}) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new HttpError(response.status, await reasonOf(response));
  return response.json();
}

async function reasonOf(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error ?? text;
  } catch {
    return text || `the session answered ${response.status}`;
  }
}

/** The stream of events of the session, and of one query. It connects again by itself until the session has ended. */
export class Stream {
  constructor(heard) {
    this.heard = heard; // {overview(view), job(view), status(kind)}
    this.job = null;
    this.failures = 0;
    this.ended = false;
  }

  open(job = null) {
    this.close();
    this.job = job;
    const source = new EventSource(job === null ? "events" : `events?job=${encodeURIComponent(job)}`);
    this.source = source;
    source.addEventListener("open", () => this.connected());
    source.addEventListener("overview", (event) => this.heard.overview(JSON.parse(event.data)));
    source.addEventListener("job", (event) => this.heard.job(JSON.parse(event.data)));
    source.addEventListener("end", () => this.finish());
    source.addEventListener("error", () => this.failed());
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  connected() {
    this.failures = 0;
    this.heard.status("live");
  }

  finish() {
    this.ended = true;
    this.close();
    this.heard.status("ended");
  }

  failed() {
    this.close();
    if (this.ended) return;
    const wait = WAITS[Math.min(this.failures, WAITS.length - 1)];
    this.failures += 1;
    this.heard.status(this.failures < 3 ? "reconnecting" : "gone");
    this.timer = setTimeout(() => this.open(this.job), wait);
  }
}

/** Puts a later view of a query on top of an earlier one: with `since`, it holds only the tasks that changed. */
export function merge(earlier, later) {
  if (later.since === null || later.since === undefined || earlier?.id !== later.id) return later;
  const tasks = new Map(earlier.tasks.map((task) => [task.key, task]));
  for (const task of later.tasks) tasks.set(task.key, task);
  return { ...later, tasks: [...tasks.values()] };
}

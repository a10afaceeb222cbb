// The session as a whole: sweeps, machines, capacity over time, tenants.

import { h, progressBar, refill, s, whenChanged } from "./dom.js";
import { SweepCards } from "./sweeps.js";
import { table } from "./table.js";
import * as words from "./words.js";

export class SessionPanel {
  constructor() {
    this.machines = h("div", { class: "machines" });
    this.capacity = h("div", {});
    this.tenants = h("section", { class: "card" });
    this.remarks = h("div", { class: "warning" });
    this.views = h("section", { class: "card" });
    this.sweeps = new SweepCards();
    this.element = h(
      "div",
      { class: "session" },
      this.remarks,
      this.sweeps.element,
      h("section", { class: "card" }, h("h2", {}, "Machines"), this.machines),
      h("section", { class: "card" }, h("h2", {}, "Capacity over time"), this.capacity),
      this.tenants,
      this.views,
    );
    this.drawRemarks = whenChanged((remarks) => refill(this.remarks, remarks.map((text) => h("p", {}, text))));
    this.drawMachines = whenChanged((machines) => refill(this.machines, machines.map(machineCard)));
    this.drawTenants = whenChanged((tenants) => this.fillTenants(tenants));
    this.drawViews = whenChanged(([views, now]) => this.fillViews(views, now));
    this.drawCapacity = whenChanged(([steps, now]) => this.fillCapacity(steps, now));
  }

  update(overview, now) {
    this.drawRemarks(overview.remarks ?? []);
    this.sweeps.update(overview.sweeps ?? []);
    this.drawMachines(overview.machines);
    this.drawTenants(overview.tenants);
    this.drawCapacity([overview.capacity, Math.round(now)]);
    this.drawViews([overview.views ?? [], Math.round(now)]);
  }

  fillViews(views, now) {
    this.views.hidden = !views.length;
    const from = Math.min(0, ...views.flatMap((view) => lagRises(view, now).map(([since]) => since)));
    refill(this.views, h("h2", {}, "Materialized views: lag over time"), views.map((view) => lagChart(view, from, now)));
  }

  fillTenants(tenants) {
    this.tenants.hidden = tenants.every((tenant) => !tenant.name); // a session of one user has no names
    const heads = ["Tenant", "Weight", "Share", "Uses", "Queries", "Waiting", "ρ"];
    refill(this.tenants, h("h2", {}, "Tenants"), table(heads, tenants.map(tenantCells), { label: "Tenants" }));
  }

  fillCapacity(steps, now) {
    if (!steps.length) return refill(this.capacity, h("p", { class: "note" }, "Nothing has been told yet."));
    return refill(
      this.capacity,
      stepChart("Slots", steps.map(([at, slots]) => [at, slots]), now, words.slots),
      stepChart("Memory", steps.map(([at, , memory]) => [at, memory]), now, words.bytes),
    );
  }
}

function tenantCells(tenant) {
  const rho = tenant.rho === null || tenant.rho === undefined ? words.NONE : tenant.rho.toFixed(2);
  return [
    tenant.name,
    words.slots(tenant.weight),
    `${words.slots(tenant.share_slots)} slots`,
    `${words.slots(tenant.used_slots)} slots`,
    tenant.jobs,
    tenant.queued,
    rho,
  ];
}

function machineCard(machine) {
  const slots = progressBar(`slots of ${machine.id} in use`);
  const memory = progressBar(`memory of ${machine.id} in use`);
  slots.update(machine.slots ? machine.used_slots / machine.slots : 0);
  memory.update(machine.memory ? machine.used_memory / machine.memory : 0);
  return h(
    "article",
    { class: "machine" },
    h("h3", {}, machine.id),
    h("p", {}, h("span", {}, `${words.slots(machine.used_slots)} of ${words.slots(machine.slots)} ${machine.slots === 1 ? "slot" : "slots"}`), slots.element),
    h("p", {}, h("span", {}, `${words.bytes(machine.used_memory)} of ${words.bytes(machine.memory)}`), memory.element),
    machine.why ? h("p", { class: "note" }, machine.why) : null,
  );
}

const WIDE = 560;
const HIGH = 64;

/** For each refresh of a view, and for now if it is behind: the time of the oldest change, and that of the refresh. */
function lagRises(view, now) {
  const rises = view.refreshes.map(([at, lag]) => [at - lag, at]);
  return view.since === null ? rises : [...rises, [view.since, Math.max(now, view.since)]];
}

/** The lag of a view as a line that rises with time and falls at each refresh, and its goal. All views have one axis of time, from `from` on. */
function lagChart(view, from, now) {
  const rises = lagRises(view, now);
  const to = Math.max(now, from + 1);
  const lag = view.since === null ? 0 : Math.max(0, now - view.since);
  const longest = Math.max(0, ...rises.map(([since, at]) => at - since));
  const most = Math.max(view.goal ?? 0, longest, 1e-9);
  const x = (at) => (WIDE * (at - from)) / (to - from);
  const y = (value) => HIGH - 2 - ((HIGH - 6) * value) / most;
  let path = `M${x(from)},${y(0)}`;
  let last = from; // the time of the refresh before
  for (const [since, at] of rises) {
    const start = Math.max(since, last);
    path += `H${x(start)}V${y(start - since)}L${x(at)},${y(at - since)}`;
    if (at < to || view.since === null) path += `V${y(0)}`; // a view that is behind now stays so
    last = at;
  }
  if (view.since === null) path += `H${x(to)}`;
  const goal = view.goal === null ? "no goal" : `goal ${words.seconds(view.goal)}`;
  const age = lag > 0 ? `${words.seconds(lag)} behind` : "up to date";
  const estimated = view.sampling_error > 0 ? `, estimated within ${(100 * view.sampling_error).toFixed(1)} %` : "";
  const worst = longest > 0 ? `, ${words.seconds(longest)} at most` : "";
  const text = `${view.name}: ${age}${worst}, ${goal}${view.incremental ? "" : ", computed from all rows"}${estimated}`;
  return h(
    "figure",
    { class: "steps" },
    h("figcaption", {}, view.error ? `${text}. ${view.error}` : text),
    s(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `Lag of ${view.name} over time, ${rises.length} refreshes, ${text}` },
      s("path", { class: "ground", d: `${path}V${y(0)}H${x(from)}Z` }),
      s("path", { class: "axis", d: `M${x(from)},${y(0)}H${x(to)}` }),
      view.goal === null ? null : s("path", { class: "goal", d: `M${x(from)},${y(view.goal)}H${x(to)}` }),
      s("path", { class: "step", d: path }),
    ),
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, words.clockTime(from)), h("span", {}, words.clockTime(to))),
  );
}

/** One quantity as steps over the session's time. */
function stepChart(name, steps, now, show) {
  const from = Math.min(0, steps[0][0]);
  const to = Math.max(now, steps.at(-1)[0], from + 1);
  const most = Math.max(...steps.map(([, value]) => value), 1e-9);
  const x = (at) => (WIDE * (at - from)) / (to - from);
  const y = (value) => HIGH - 2 - ((HIGH - 6) * value) / most;
  let path = `M${x(steps[0][0])},${y(steps[0][1])}`;
  for (const [at, value] of steps.slice(1)) path += `H${x(at)}V${y(value)}`;
  path += `H${x(to)}`;
  const last = steps.at(-1)[1];
  return h(
    "figure",
    { class: "steps" },
    h("figcaption", {}, `${name}: ${show(last)} now, ${show(most)} at most`),
    s(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name} over time, ${steps.length} steps, now ${show(last)}` },
      s("path", { class: "ground", d: `${path}V${y(0)}H${x(steps[0][0])}Z` }),
      s("path", { class: "axis", d: `M${x(from)},${y(0)}H${x(to)}` }),
      s("path", { class: "step", d: path }),
    ),
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, words.clockTime(from)), h("span", {}, words.clockTime(to))),
  );
}

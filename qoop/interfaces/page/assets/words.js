// Numbers and states in words, as people read them.

export const NONE = "–";

export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 0) return `−${seconds(-value)}`;
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 99.5) return `${Math.round(value)} s`;
  const whole = Math.round(value);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (!hours) return `${minutes} min ${String(rest).padStart(2, "0")} s`;
  return `${hours} h ${String(minutes).padStart(2, "0")} min`;
}

/** A point in time on an axis: 0:07, 12:30, 1:02:03; with tenths where the axis is fine. */
export function clockTime(value, tenths = false) {
  const sign = value < 0 ? "−" : "";
  const rounded = tenths ? Math.round(Math.abs(value) * 10) / 10 : Math.round(Math.abs(value));
  const hours = Math.floor(rounded / 3600);
  const minutes = Math.floor((rounded % 3600) / 60);
  const rest = (rounded % 60).toFixed(tenths ? 1 : 0).padStart(tenths ? 4 : 2, "0");
  return sign + (hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`);
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 9.95 ? plainTenth(value) : Math.round(value)} ${units[unit]}`;
}

export function rows(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 999999.5) return Math.round(value).toLocaleString("en");
  if (value < 999.5e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  return `${Number((value / 1e9).toPrecision(3))} bn`;
}

const plainTenth = (value) => String(Math.round(value * 10) / 10);

export function slots(value) {
  return value === null || value === undefined ? NONE : String(Math.round(value * 100) / 100);
}

export function percent(fraction) {
  return `${Math.floor(100 * Math.min(1, Math.max(0, fraction || 0)))} %`;
}

export function room(pair) {
  return pair ? `${slots(pair[0])} ${pair[0] === 1 ? "slot" : "slots"}, ${bytes(pair[1])}` : NONE;
}

export function range(left) {
  if (!left) return null;
  const [least, most] = [seconds(left.least), seconds(left.most)];
  return least === most ? seconds(left.likely) : `${seconds(left.likely)} (${least} to ${most})`;
}

const STATES = {
  QUEUED: ["queued", "○"],
  STARTING: ["starting", "◔"],
  PLANNING: ["planning", "◔"],
  RUNNING: ["running", "▶"],
  SWITCHING: ["changing plan", "⇄"],
  SUCCEEDED: ["done", "✓"],
  FAILED: ["failed", "✕"],
  CANCELLED: ["cancelled", "⊘"],
  SUSPENDED: ["suspended", "❚❚"],
};

export function stateWords(state) {
  return (STATES[state] ?? [state.toLowerCase()])[0];
}

export function stateMark(state) {
  return (STATES[state] ?? [null, "•"])[1];
}

const OVER = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "SUSPENDED"]);

export function isOver(state) {
  return OVER.has(state);
}

/** "ends in 4 s (3 to 6 s)", "took 12 s": where a query stands in time. */
export function endWords(job) {
  if (job.ended !== null && job.ended !== undefined) {
    return `took ${seconds(job.ended - (job.started ?? job.submitted))}`;
  }
  if (isOver(job.state)) return stateWords(job.state);
  if (job.state === "QUEUED") return "waits for its turn";
  const left = range(job.left);
  return left ? `ends in ${left}` : "end not known yet";
}

/** How far an estimate was off: "2.1 × more", "as estimated". */
export function factor(estimated, found) {
  if (estimated === null || estimated === undefined || found === null || found === undefined) return "";
  if (estimated <= 0 || found <= 0) return estimated === found ? "as estimated" : "";
  const ratio = found / estimated;
  if (ratio > 0.8 && ratio < 1.25) return "as estimated";
  return ratio > 1 ? `${short(ratio)} × more` : `${short(1 / ratio)} × less`;
}

const short = (ratio) => (ratio < 10 ? plainTenth(ratio) : Math.round(ratio).toLocaleString("en"));

/** "CapacityReported" as "capacity reported". */
export function plain(name) {
  return name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

export function shorten(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

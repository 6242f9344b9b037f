// Formats numbers, times and sizes for people.

export const NONE = "–";

/** Format a whole number with commas. Why not `Intl`: it would delay the first frame by 80 ms. */
function whole(n) {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Format a count or a step, such as `1,290`. */
export function count(n) {
  return n == null ? NONE : whole(n);
}

/** Format a duration, such as `21.4 s`, `3 min 5 s` or `2 h 10 min`. */
export function seconds(s) {
  if (s == null || !Number.isFinite(s)) return NONE;
  const sign = s < 0 ? "−" : "";
  const n = Math.abs(s);
  if (n < 0.0995) return n < 0.0005 ? "0 s" : `${sign}${Math.round(n * 1000)} ms`;
  if (n < 9.95) return `${sign}${n.toFixed(1)} s`;
  if (n < 99.95) return `${sign}${n.toFixed(1)} s`;
  const r = Math.round(n);
  if (r < 3600) return `${sign}${Math.floor(r / 60)} min${r % 60 ? ` ${r % 60} s` : ""}`;
  const m = Math.round(n / 60);
  return `${sign}${Math.floor(m / 60)} h${m % 60 ? ` ${m % 60} min` : ""}`;
}

/** Format a time on an axis whose ticks are `step` seconds apart, such as `5 s`, `2:30` or `1:02:00`. */
export function tick(t, step) {
  if (t < 60 && step < 60) return `${step < 1 ? t.toFixed(step < 0.1 ? 2 : 1) : Math.round(t)} s`;
  const r = step < 1 ? t : Math.round(t);
  const s = step < 1 ? (r % 60).toFixed(1).padStart(4, "0") : String(r % 60).padStart(2, "0");
  const m = Math.floor(r / 60);
  return m < 60 ? `${m}:${s}` : `${Math.floor(m / 60)}:${String(m % 60).padStart(2, "0")}:${s}`;
}

/** Format a time since the run began, such as `24.8 s` or `2:04.5`. */
export function clock(t) {
  if (t == null || !Number.isFinite(t)) return NONE;
  return t < 60 ? `${t.toFixed(1)} s` : tick(Math.round(t * 10) / 10, 0.5);
}

/** Format the time from one moment to another, such as `+0.3 s`. */
export function after(s) {
  return s == null ? NONE : `${s < 0 ? "" : "+"}${seconds(s)}`;
}

/** Format a size in bytes, such as `690 MiB`, in the units and with the digits of `clusterkit ps`. */
export function bytes(n) {
  if (n == null) return NONE;
  const units = ["B", "KiB", "MiB", "GiB"];
  let value = n;
  let i = 0;
  while (value >= 1000 && i < units.length - 1) {
    value /= 1024;
    i += 1;
  }
  return `${i && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[i]}`;
}

/** Format a speed, such as `138`, `19.6` or `0.25`. */
export function speed(n) {
  if (n == null) return NONE;
  return n !== 0 && n < 99.95 ? n.toFixed(n < 0.995 ? 2 : 1) : whole(n);
}

/** Format a fraction as a percentage, such as `61 %`. */
export function share(n) {
  if (n == null) return NONE;
  return `${n > 0 && n < 0.0095 ? (n * 100).toFixed(1) : Math.round(n * 100)} %`;
}

/** Format the value of a metric with four digits. */
export function metric(v) {
  if (v == null) return NONE;
  if (typeof v !== "number") return String(v);
  if (v === 0) return "0";
  const n = Math.abs(v);
  if (n >= 1e6 || n < 1e-4) return v.toExponential(2);
  return n >= 1000 ? whole(v) : String(Number(v.toPrecision(4)));
}

/** Format a value of a curve with its unit. */
export function quantity(v, unit) {
  if (unit === "B" || unit === "bytes") return bytes(v);
  if (unit === "steps/s") return speed(v);
  if (unit === "%") return v == null ? NONE : `${Math.round(v)} %`;
  return metric(v);
}

/** Format a wall time in the local time zone, such as `2026-11-21 13:54`. */
export function moment(wall) {
  if (wall == null) return NONE;
  const d = new Date(wall * 1000);
  const two = (n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}`;
}

/** Format how long ago a wall time was, such as `5 min ago`; a time of other days as a date. Both are in seconds. */
export function ago(wall, now) {
  if (wall == null) return NONE;
  const past = Math.max(0, now - wall);
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 12 * 3600) return `${Math.floor(past / 3600)} h ago`;
  return moment(wall);
}

/** Format the time of day of a wall time in milliseconds, such as `13:54:02`. */
export function wallTime(milliseconds) {
  return new Date(milliseconds).toTimeString().slice(0, 8);
}

/** Format a count with its noun, such as `1 task` or `2 tasks`. */
export function plural(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** Compare two names of tasks: by type in the order chief, worker, ps, evaluator, then by number. */
export function byTask(a, b) {
  const [x, i] = split(a);
  const [y, j] = split(b);
  return x - y || i - j || (a < b ? -1 : a > b ? 1 : 0);
}

const TYPES = ["chief", "worker", "ps", "evaluator"];

function split(task) {
  const at = task.lastIndexOf(":");
  const type = TYPES.indexOf(task.slice(0, at));
  return [type < 0 ? TYPES.length : type, Number.parseInt(task.slice(at + 1), 10) || 0];
}

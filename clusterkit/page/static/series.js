// Prepares curves for uPlot: lists the metrics, fetches points, and maps them to the shared time axis with gaps.

import { byTask } from "./format.js";

export const SPEED = "steps/s";
const OWN = ["step", "cpu", "memory", "gpu", "gpu memory"]; // clusterkit's own metrics, which come after those that the program reports

/** Return all metrics, [{name, unit, tasks}], in the order of their buttons. */
export function metricsOf(store) {
  const found = new Map();
  const add = (name, unit, info) => {
    if (!found.has(name)) found.set(name, { name, unit, tasks: [] });
    found.get(name).tasks.push(info.task);
  };
  for (const info of store.all("series")) {
    add(info.name, info.unit, info);
    if (info.name === "step") add(SPEED, SPEED, info);
  }
  const first = [store.get("run")?.metric, SPEED]; // the most important metrics
  const rank = (name) => (first.includes(name) ? first.indexOf(name) : OWN.includes(name) ? 100 + OWN.indexOf(name) : 50);
  for (const metric of found.values()) metric.tasks.sort(byTask);
  return [...found.values()].sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1));
}

/** Return the names of the metrics that are shown until the user chooses others. */
export function firstChoice(metrics) {
  const names = metrics.map((m) => m.name);
  const reported = names.filter((name) => !OWN.includes(name) && name !== SPEED).slice(0, 1);
  const chosen = [...reported, ...names.filter((name) => name === SPEED)];
  return chosen.length ? [...chosen, ...names.filter((n) => n === "cpu")].slice(0, 3) : names.slice(0, 2);
}

/** Return the name of the curve to fetch for a metric of a task. */
export function sourceName(metric, task) {
  return `${metric === SPEED ? "step" : metric}/${task}`;
}

/** Append points that were fetched later. Where both overlap in time, use the later ones. */
export function continued(points, later) {
  const from = points ? points.t.findIndex((t) => t >= later.t[0]) : 0;
  const kept = (column) => (from < 0 ? column : column.slice(0, from));
  return Object.fromEntries(Object.entries(later).map(([name, column]) => [name, [...kept(points?.[name] ?? []), ...column]]));
}

const OVERLAP = 5; // seconds; this much is fetched again, since some points arrive late

/** The fetched points of curves. Fetches all points at first and whenever `about` changes; otherwise, only new points. */
export class Points {
  of = {};

  /** Fetch points with `ask(begin)`, which returns the points from the time `begin` on, or all points if it is null. */
  async fetch(names, about, ask) {
    const key = JSON.stringify([names, about]); // known points can change only if this key changes
    const known = () => names.map((name) => this.of[name]?.t.length ?? 0);
    const more = key === this.key && known().every((long, i) => long < 2 * (this.long[i] ?? 0) + 50); // otherwise, fetch all points anew at the usual resolution
    const newest = Math.max(...names.map((name) => this.of[name]?.t.at(-1) ?? 0));
    const found = names.length ? await ask(more ? newest - OVERLAP : null) : {};
    const entries = Object.entries(found).map(([name, later]) => [name, more ? continued(this.of[name], later) : later]);
    this.of = Object.fromEntries(entries);
    this.key = key;
    if (!more) this.long = known();
  }
}

/** Return what can change known points: after a restart, steps are marked as repeated; a pause becomes a gap. */
export function attemptsOf(store) {
  return store.all("attempt").map((one) => [one.task, one.attempt, one.how, one.segments.length]);
}

/** Return a curve as {u, v, again, low, high}, with nulls in gaps. `again` has only values of steps that were repeated. */
export function curveOf(metric, points, timeline) {
  const p = metric === SPEED ? speedOf(points) : points;
  const curve = { u: [], v: [], again: [], low: [], high: [], window: p.window };
  for (let i = 0; i < p.t.length; i += 1) {
    const u = timeline.toU(p.t[i]);
    const last = curve.u.at(-1);
    curve.u.push(last != null && u <= last ? last + 1e-6 : u); // uPlot requires ascending values
    curve.v.push(p.v[i]);
    curve.again.push(p.again?.[i] || p.again?.[i + 1] ? p.v[i] : null);
    curve.low.push(p.low?.[i] ?? p.v[i]);
    curve.high.push(p.high?.[i] ?? p.v[i]);
  }
  return curve;
}

/** Compute steps per second from the steps. The window is wide enough for a steady curve, and never spans a gap. */
function speedOf({ t, v, again }) {
  const found = { t: [], v: [], again: [] };
  const put = (i, value) => [found.t.push(t[i]), found.v.push(value), found.again.push(again?.[i] ?? 0)];
  const window = Math.max((t.at(-1) - t[0]) / 80, 0.5);
  found.window = window;
  let from = 0;
  for (let i = 0; i < t.length; i += 1) {
    if (v[i] === null) put(i, null);
    if (i === 0 || v[i] === null || v[i - 1] === null || v[i] < v[i - 1]) {
      from = i; // the curve begins here, or continues after a gap or a restart
      continue;
    }
    while (from < i - 1 && t[i] - t[from] > window) from += 1;
    if (t[i] - t[from] >= window / 4) put(i, (v[i] - v[from]) / (t[i] - t[from]));
  }
  return found;
}

const KEPT = 0.9; // the weight of the previous mean at each point of a smooth curve

/** Smooth a curve with an exponentially weighted mean, which starts anew after each gap. */
export function smooth(curve) {
  let [sum, weight] = [0, 0];
  const v = curve.v.map((value) => {
    if (value == null) [sum, weight] = [0, 0];
    else [sum, weight] = [KEPT * sum + (1 - KEPT) * value, KEPT * weight + 1 - KEPT];
    return value == null ? null : sum / weight;
  });
  return { ...curve, v, again: curve.again.map((value, i) => (value == null ? value : v[i])) };
}

/** Return the mean, minimum and maximum of several curves, wherever at least one of them has a point. */
export function mean(curves) {
  const u = [...new Set(curves.flatMap((curve) => curve.u))].sort((a, b) => a - b);
  const found = { task: "mean", u, v: [], low: [], high: [], again: u.map(() => null) };
  for (const at of u) {
    const values = curves.map((curve) => valueAt(curve, at)).filter((value) => value != null);
    found.v.push(values.length ? values.reduce((a, b) => a + b) / values.length : null);
    found.low.push(values.length ? Math.min(...values) : null);
    found.high.push(values.length ? Math.max(...values) : null);
  }
  return found;
}

/** Return curves as CSV; `secondsOf` converts u to seconds. Escapes names that a spreadsheet would run as formulas. */
export function csvOf(charts, secondsOf) {
  const cell = (text) => `"${text.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const rows = charts.flatMap(({ metric, curves = [] }) =>
    curves.flatMap(({ task, u, v }) => u.flatMap((at, i) => (v[i] == null ? [] : [`${cell(metric.name)},${cell(task)},${secondsOf(at).toFixed(3)},${v[i]}`]))),
  );
  return ["metric,task,seconds,value", ...rows, ""].join("\n");
}

/** Return the value of the last point at or before `u`; null in a gap. */
export function valueAt(curve, u) {
  let [low, high] = [0, curve.u.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.u[middle] <= u) low = middle + 1;
    else high = middle;
  }
  return low ? curve.v[low - 1] : null;
}

/** Return the newest value, as the task's row shows it; of the speed, the curve's own, if it has one yet. It is null while no steps are reported. */
export function newest(metric, curve, row, run) {
  const last = curve.v.at(-1);
  if (metric === SPEED) return run?.speed === null ? null : (last ?? row?.speed);
  if (row && ["step", "cpu", "memory"].includes(metric)) return row[metric];
  return row && metric in row.metrics ? row.metrics[metric] : curve.v.findLast((v) => v != null);
}

/** Return the range of the axis for values from `low` to `high`. Includes zero if zero is meaningful for the metric. */
export function rangeOf(metric, low, high) {
  if (low == null) return [0, 1];
  const zero = metric.name === SPEED || metric.unit !== "" || (low >= 0 && low < (high - low) * 0.5);
  const begin = zero ? Math.min(0, low) : low;
  const room = (high - begin || Math.abs(high) || 1) * 0.08;
  return [zero ? begin : low - room, high + room];
}

/** Return the indexes of points between two gaps: no line reaches them, so they need a dot. */
export function alone(column) {
  const there = [...column.keys()].filter((i) => column[i] !== undefined);
  return there.filter((i, n) => column[i] !== null && column[there[n - 1]] == null && column[there[n + 1]] == null);
}

/**
 * Join curves on one axis, in the form that uPlot expects: [u, …columns]. `pick(curve)` returns the columns of a curve.
 *
 * uPlot draws a gap only where values are null, so the nulls of a gap extend to the next point of the same curve, even if
 * other curves have points in between.
 */
export function joined(curves, pick) {
  const axis = [...new Set(curves.flatMap((curve) => curve.u))].sort((a, b) => a - b);
  const place = new Map(axis.map((u, index) => [u, index]));
  const columns = curves.flatMap((curve) =>
    pick(curve).map((values) => {
      const column = new Array(axis.length).fill(undefined); // undefined means that this curve has no point here, which is not a gap
      values.forEach((value, index) => (column[place.get(curve.u[index])] = value));
      for (let i = 1; i < column.length; i += 1) if (column[i] === undefined && column[i - 1] === null) column[i] = null;
      return column;
    }),
  );
  return [axis, ...columns];
}

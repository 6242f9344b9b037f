// Curves as uPlot takes them: which there are, fetched points on the shared axis, broken where an attempt ended.

import { byTask } from "./format.js";

export const SPEED = "steps/s";
const OWN = ["step", "cpu", "memory", "gpu", "gpu memory"]; // after all that the program reports

/** The metrics there are, in the order of the buttons: [{name, unit, tasks}]. */
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
  const first = [store.get("run")?.metric, SPEED]; // what the run is mainly about
  const rank = (name) => (first.includes(name) ? first.indexOf(name) : OWN.includes(name) ? 100 + OWN.indexOf(name) : 50);
  for (const metric of found.values()) metric.tasks.sort(byTask);
  return [...found.values()].sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1));
}

/** Those that are shown until the user chooses. */
export function firstChoice(metrics) {
  const names = metrics.map((m) => m.name);
  const reported = names.filter((name) => !OWN.includes(name) && name !== SPEED).slice(0, 1);
  const chosen = [...reported, ...names.filter((name) => name === SPEED)];
  return chosen.length ? [...chosen, ...names.filter((n) => n === "cpu")].slice(0, 3) : names.slice(0, 2);
}

/** The name to fetch for a metric of a task. */
export function sourceName(metric, task) {
  return `${metric === SPEED ? "step" : metric}/${task}`;
}

/** Points with those that were fetched later; of what is in both, the later ones count. */
export function continued(points, later) {
  const from = points ? points.t.findIndex((t) => t >= later.t[0]) : 0;
  const kept = (column) => (from < 0 ? column : column.slice(0, from));
  return Object.fromEntries(Object.entries(later).map(([name, column]) => [name, [...kept(points?.[name] ?? []), ...column]]));
}

const OVERLAP = 5; // seconds of points that are fetched again, since some come late

/** Points as they are fetched: all at first and whenever `about` is another one, then those that are new. */
export class Points {
  of = {};

  /** `ask(begin)` fetches those of the names, from there on; null: all. */
  async fetch(names, about, ask) {
    const key = JSON.stringify([names, about]); // what is known may change only if this does
    const known = () => names.map((name) => this.of[name]?.t.length ?? 0);
    const more = key === this.key && known().every((long, i) => long < 2 * (this.long[i] ?? 0) + 50); // else all, anew
    const newest = Math.max(...names.map((name) => this.of[name]?.t.at(-1) ?? 0));
    const found = names.length ? await ask(more ? newest - OVERLAP : null) : {};
    const entries = Object.entries(found).map(([name, later]) => [name, more ? continued(this.of[name], later) : later]);
    this.of = Object.fromEntries(entries);
    this.key = key;
    if (!more) this.long = known();
  }
}

/** What of the attempts changes points that are known: a restart has steps computed again, a pause makes a gap. */
export function attemptsOf(store) {
  return store.all("attempt").map((one) => [one.task, one.attempt, one.how, one.segments.length]);
}

/** One curve: {u, v, again, low, high}, with a null where it has a gap; `again` is what was computed again later. */
export function curveOf(metric, points, timeline) {
  const p = metric === SPEED ? speedOf(points) : points;
  const curve = { u: [], v: [], again: [], low: [], high: [] };
  for (let i = 0; i < p.t.length; i += 1) {
    const u = timeline.toU(p.t[i]);
    const last = curve.u.at(-1);
    curve.u.push(last != null && u <= last ? last + 1e-6 : u); // uPlot wants them to grow
    curve.v.push(p.v[i]);
    curve.again.push(p.again?.[i] || p.again?.[i + 1] ? p.v[i] : null);
    curve.low.push(p.low?.[i] ?? p.v[i]);
    curve.high.push(p.high?.[i] ?? p.v[i]);
  }
  return curve;
}

/** Steps per second from the steps: over a window that is wide enough for it to be steady, and never across a gap. */
function speedOf({ t, v, again }) {
  const found = { t: [], v: [], again: [] };
  const put = (i, value) => [found.t.push(t[i]), found.v.push(value), found.again.push(again?.[i] ?? 0)];
  const window = Math.max((t.at(-1) - t[0]) / 80, 0.5);
  let from = 0;
  for (let i = 0; i < t.length; i += 1) {
    if (v[i] === null) put(i, null);
    if (i === 0 || v[i] === null || v[i - 1] === null || v[i] < v[i - 1]) {
      from = i; // it begins, or begins again
      continue;
    }
    while (from < i - 1 && t[i] - t[from] > window) from += 1;
    if (t[i] - t[from] >= window / 4) put(i, (v[i] - v[from]) / (t[i] - t[from]));
  }
  return found;
}

const KEPT = 0.9; // of the mean so far, at each point of a smooth curve

/** The curve as the mean of its points, of which each counts less the older it is; it begins anew after a gap. */
export function smooth(curve) {
  let [sum, weight] = [0, 0];
  const v = curve.v.map((value) => {
    if (value == null) [sum, weight] = [0, 0];
    else [sum, weight] = [KEPT * sum + (1 - KEPT) * value, KEPT * weight + 1 - KEPT];
    return value == null ? null : sum / weight;
  });
  return { ...curve, v, again: curve.again.map((value, i) => (value == null ? value : v[i])) };
}

/** The mean of several curves, and their lowest and highest value, wherever one of them has a point. */
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

/** Rows of curves as CSV; `secondsOf` is of a place on their axis. A name that a program chose is no formula. */
export function csvOf(charts, secondsOf) {
  const cell = (text) => `"${text.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const rows = charts.flatMap(({ metric, curves = [] }) =>
    curves.flatMap(({ task, u, v }) => u.flatMap((at, i) => (v[i] == null ? [] : [`${cell(metric.name)},${cell(task)},${secondsOf(at).toFixed(3)},${v[i]}`]))),
  );
  return ["metric,task,seconds,value", ...rows, ""].join("\n");
}

/** The value at a place, the last one before it; null in a gap. */
export function valueAt(curve, u) {
  let [low, high] = [0, curve.u.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.u[middle] <= u) low = middle + 1;
    else high = middle;
  }
  return low ? curve.v[low - 1] : null;
}

/** The present value, as in the task's row and the headline; of a speed, none once nothing is reported any more. */
export function newest(metric, curve, row, run) {
  const last = curve.v.at(-1);
  if (metric === SPEED) return run?.speed === null ? null : (row?.speed ?? last);
  if (row && ["step", "cpu", "memory"].includes(metric)) return row[metric];
  return row && metric in row.metrics ? row.metrics[metric] : curve.v.findLast((v) => v != null);
}

/** The axis of a metric whose values are in between: with zero, where that is a part of what it says. */
export function rangeOf(metric, low, high) {
  if (low == null) return [0, 1];
  const zero = metric.name === SPEED || metric.unit !== "" || (low >= 0 && low < (high - low) * 0.5);
  const begin = zero ? Math.min(0, low) : low;
  const room = (high - begin || Math.abs(high) || 1) * 0.08;
  return [zero ? begin : low - room, high + room];
}

/** The points of a column that have a gap on each side, which no line shows. */
export function alone(column) {
  const there = [...column.keys()].filter((i) => column[i] !== undefined);
  return there.filter((i, n) => column[i] !== null && column[there[n - 1]] == null && column[there[n + 1]] == null);
}

/**
 * Curves on one axis, as uPlot wants them: [u, …columns]; `pick` chooses the columns of a curve. uPlot takes a gap to be as
 * long as its nulls: they go up to the next point of the same curve, over the points of all others.
 */
export function joined(curves, pick) {
  const axis = [...new Set(curves.flatMap((curve) => curve.u))].sort((a, b) => a - b);
  const place = new Map(axis.map((u, index) => [u, index]));
  const columns = curves.flatMap((curve) =>
    pick(curve).map((values) => {
      const column = new Array(axis.length).fill(undefined); // not a gap, but no point of this curve
      values.forEach((value, index) => (column[place.get(curve.u[index])] = value));
      for (let i = 1; i < column.length; i += 1) if (column[i] === undefined && column[i - 1] === null) column[i] = null;
      return column;
    }),
  );
  return [axis, ...columns];
}

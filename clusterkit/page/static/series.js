// Curves as uPlot takes them: which there are, fetched points on the shared axis, broken where an attempt ended.

import { byTask } from "./format.js";

const SPEED = "steps/s";
const KINDS = ["loss", SPEED]; // shown at first, where they exist
const OWN = ["step", "cpu", "memory"]; // after all that the program reports

/** The metrics there are, in the order of the buttons: [{name, unit, tasks}]. */
export function metricsOf(store) {
  const found = new Map();
  const add = (name, unit, info) => {
    if (!found.has(name)) found.set(name, { name, unit, tasks: [] });
    found.get(name).tasks.push(info.task);
  };
  for (const info of store.all("series")) {
    add(info.name, info.unit, info);
    if (info.name === "step") add(SPEED, "", info);
  }
  const rank = (name) => (KINDS.includes(name) ? KINDS.indexOf(name) : OWN.includes(name) ? 100 + OWN.indexOf(name) : 50);
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

/** When the attempts of each task began: a curve is not drawn across. */
export function beginsOf(store) {
  const begins = new Map();
  for (const { task, begin } of store.all("attempt")) {
    if (!begins.has(task)) begins.set(task, []);
    begins.get(task).push(begin);
  }
  for (const list of begins.values()) list.sort((a, b) => a - b);
  return begins;
}

/** One curve: {u, v, low, high}, with a null where it is broken. */
export function curveOf(metric, points, begins, timeline) {
  const p = metric === SPEED ? speedOf(points) : points;
  const curve = { u: [], v: [], low: [], high: [] };
  let next = begins.findIndex((begin) => begin > (p.t[0] ?? 0));
  for (let i = 0; i < p.t.length; i += 1) {
    const t = p.t[i];
    if (next >= 0 && i > 0 && t >= begins[next]) {
      put(curve, timeline.toU((p.t[i - 1] + t) / 2), null, null, null);
      while (next >= 0 && next < begins.length && begins[next] <= t) next += 1;
      if (next >= begins.length) next = -1;
    }
    put(curve, timeline.toU(t), p.v[i], p.low?.[i] ?? p.v[i], p.high?.[i] ?? p.v[i]);
  }
  return curve;
}

function put(curve, u, v, low, high) {
  const last = curve.u.at(-1);
  curve.u.push(last != null && u <= last ? last + 1e-6 : u); // uPlot wants them to grow
  curve.v.push(v);
  curve.low.push(low);
  curve.high.push(high);
}

/** Steps per second from the steps: over a window that is wide enough for it to be steady. */
function speedOf({ t, v }) {
  const found = { t: [], v: [] };
  if (t.length < 2) return found;
  const window = Math.max((t.at(-1) - t[0]) / 80, 0.5);
  let from = 0;
  for (let i = 1; i < t.length; i += 1) {
    if (v[i] < v[i - 1]) from = i; // it began again
    while (from < i - 1 && t[i] - t[from] > window) from += 1;
    if (t[i] - t[from] < window / 4) continue;
    found.t.push(t[i]);
    found.v.push((v[i] - v[from]) / (t[i] - t[from]));
  }
  return found;
}

/** Curves on one axis, as uPlot wants them: [u, …columns]; `pick` chooses the columns of a curve. */
export function joined(curves, pick) {
  const axis = [...new Set(curves.flatMap((curve) => curve.u))].sort((a, b) => a - b);
  const place = new Map(axis.map((u, index) => [u, index]));
  const columns = curves.flatMap((curve) =>
    pick(curve).map((values) => {
      const column = new Array(axis.length).fill(undefined); // not a gap, but no point of this curve
      values.forEach((value, index) => (column[place.get(curve.u[index])] = value));
      return column;
    }),
  );
  return [axis, ...columns];
}

// Compares two to eight runs: their results, the options that differ, and their curves over steps or time.

import { fill, h, hueOf, keyed, mark, say } from "./dom.js";
import { byTask, clock, count, quantity, seconds, share } from "./format.js";
import { paletteOf } from "./lane_paint.js";
import { plotting } from "./plotting.js";
import { Points, attemptsOf, firstChoice, joined, metricsOf, valueAt } from "./series.js";
import { Store } from "./store.js";

const HEIGHT = 320;
const STEPS = [1, 2, 5].flatMap((n) => Array.from({ length: 10 }, (_, power) => n * 10 ** power)).sort((a, b) => a - b); // the allowed distances between ticks of the axis
const POINTS = 800;
const NO_POINTS = { t: [], v: [], again: [] };

export class ComparePage {
  constructor(store, source) {
    Object.assign(this, { store, source, shown: "", metric: null, known: new Map() });
    document.title = "Compare · clusterkit";
    this.table = h("table");
    this.axis = h("select", { "aria-label": "What the curves are over", onchange: () => this.draw() }, ["step", "time"].map((name) => h("option", { value: name }, `over ${name}`)));
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "The curve that is shown" });
    this.plot = h("figure", { class: "chart" });
    this.missing = h("p", { class: "empty" });
    const head = h("div", { class: "head" }, h("h2", { id: "h-curves" }, "Curves"), this.chips, h("div", { class: "tools" }, this.axis));
    const facts = h("div", { class: "wide-table", tabindex: "0", role: "group", "aria-label": "The runs beside each other" }, this.table);
    this.root = h(
      "div",
      { class: "page" },
      h("header", { class: "list" }, h("h1", null, "Runs compared"), h("a", { href: "/", class: "home" }, "All runs")),
      h("main", { class: "stack" }, h("section", { "aria-label": "Results and options" }, facts, this.missing), h("section", { "aria-labelledby": "h-curves" }, head, this.plot)),
    );
    store.on(["of"], () => this.update());
    addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Return [{id, run, goodput, options, metrics, …}] for the runs, in the order of the address. */
  runs() {
    return this.source.place.ids.map((id) => {
      const store = new Store();
      for (const [key, entity] of Object.entries(this.store.get(`of/${id}`) ?? {})) store.put(key, entity);
      const last = new Map(store.all("series").sort((a, b) => byTask(b.task, a.task)).map((one) => [one.name, one])); // maps each metric to its series of the first task
      const { run, goodput, job } = Object.fromEntries(["run", "goodput", "job"].map((key) => [key, store.get(key)]));
      return { id, run, goodput: goodput?.goodput, options: optionsOf(job?.file), metrics: metricsOf(store), last, attempts: attemptsOf(store) };
    }).filter((one) => one.run);
  }

  /** Called after an answer of the server: ids for which no run was received by now are not runs. */
  connected() {
    const missing = this.source.place.ids.filter((id) => !this.store.get(`of/${id}`)?.run);
    say(this.missing, missing.length ? `There is no such run: ${missing.join(", ")}` : this.source.place.ids.length ? "" : "The address names no run.");
  }

  update() {
    const runs = (this.compared = this.runs());
    const key = JSON.stringify(runs.map((one) => [one.run, one.goodput, [...one.last]]));
    if (key === this.shown || !runs.length) return;
    this.shown = key;
    const metrics = new Map(runs.flatMap((one) => one.metrics).map((one) => [one.name, one]));
    this.metric ??= firstChoice([...metrics.values()].filter((one) => one.name !== "steps/s"))[0];
    keyed(this.chips, [...metrics.keys()].filter((name) => name !== "steps/s"), (name) => name, (name) => this.chip(name), (chip, name) => mark(chip, "aria-pressed", String(name === this.metric)));
    const row = (name, of) => h("tr", null, h("th", { scope: "row" }, name), runs.map((one) => h("td", null, of(one))));
    const numbers = (name, of, shown, better) => numbersRow(name, runs.map(of), shown, better);
    const options = [...new Set(runs.flatMap((one) => [...one.options.keys()]))].filter((name) => new Set(runs.map((one) => one.options.get(name))).size > 1);
    const names = runs.map((one, at) => h("th", { scope: "col" }, h("a", { href: this.source.hrefOf(one.id), class: hueOf(at) }, one.id), at === 0 && h("small", null, " baseline")));
    fill(
      this.table,
      h("thead", null, h("tr", null, h("td"), names)),
      h(
        "tbody",
        null,
        row("program", ({ run }) => run.program),
        row("state", ({ run }) => run.state || run.now),
        row("steps", ({ run }) => count(run.step)),
        numbers("goodput", ({ goodput }) => goodput, share, 1),
        numbers("restarts", ({ run }) => run.restarts, count, -1),
        numbers("took", ({ run }) => run.ended, seconds, -1),
        [...metrics.values()].filter((one) => !["step", "steps/s"].includes(one.name)).map(({ name, unit }) => numbers(name, (one) => one.last.get(name)?.last, (value) => quantity(value, unit), wayOf(name))),
        options.map((name) => row(h("code", null, name), (one) => h("code", null, one.options.get(name) ?? "–"))),
      ),
    );
    this.fetch();
  }

  chip(name) {
    const choose = () => {
      this.metric = name;
      this.shown = "";
      this.update();
    };
    return h("button", { class: "chip", type: "button", onclick: choose }, name);
  }

  async fetch() {
    if (this.busy) return (this.late = true);
    Object.assign(this, { busy: true, late: false });
    const { metric } = this;
    const ask = async ({ id, last, attempts }) => {
      const names = [metric, "step"].map((name) => `${name}/${last.get(name)?.task ?? ""}`);
      const known = this.known.get(id) ?? { points: new Points() };
      this.known.set(id, known);
      const version = JSON.stringify([names, ...last]);
      if (version !== known.version) {
        await known.points.fetch(names, attempts, (begin) => this.source.series(names, begin, null, POINTS, id));
        known.version = version;
      }
      return names.map((name) => known.points.of[name] ?? NO_POINTS);
    };
    const points = await Promise.all(this.compared.map((one) => ask(one).catch(() => [NO_POINTS, NO_POINTS])));
    this.uPlot = await plotting();
    this.busy = false;
    if (this.late) return this.fetch();
    this.points = points;
    return this.draw();
  }

  draw() {
    if (!this.points || !this.uPlot || !this.plot.clientWidth) return;
    const palette = paletteOf(this.root);
    const byStep = this.axis.value === "step";
    const axis = { font: `11.5px ${palette("sans")}`, stroke: palette("soft"), grid: { stroke: palette("line"), width: 1 }, ticks: { show: false } };
    const series = this.points.map((_, at) => ({ stroke: palette(`task-${at % 8}`), width: 1.6 }));
    const { unit } = this.compared.flatMap((one) => one.metrics).find((one) => one.name === this.metric) ?? { unit: "" };
    const of = (format) => (_, values) => values.map(format);
    const axes = [{ ...axis, values: of(byStep ? count : clock), ...(byStep && { incrs: STEPS }) }, { ...axis, size: 96, values: of((v) => quantity(v, unit)) }];
    const data = joined(this.points.map(([points, steps]) => over(points, byStep ? steps : null)), (curve) => [curve.v]);
    this.plot.replaceChildren();
    new this.uPlot({ width: this.plot.clientWidth, height: HEIGHT, legend: { show: false }, cursor: { show: false }, scales: { x: { time: false } }, axes, series: [{}, ...series] }, data, this.plot);
    mark(this.plot, "aria-label", `${this.metric} over ${this.axis.value} of ${this.compared.map((one) => one.id).join(", ")}`);
  }
}

/** Return 1 if a greater value of a metric is better, -1 if a smaller one is, and 0 if its name does not tell. */
export function wayOf(metric) {
  if (/loss|error|mse|mae|perplexity/i.test(metric)) return -1;
  return /acc|auc|precision|recall|f1/i.test(metric) ? 1 : 0;
}

/** Return the texts of a row of numbers: each with its difference from the first, which is the baseline, and whether it is best. */
export function differences(values, way) {
  const known = values.filter((value) => typeof value === "number" && Number.isFinite(value));
  const best = !way || known.length < 2 || new Set(known).size < 2 ? null : way > 0 ? Math.max(...known) : Math.min(...known);
  const [base] = values;
  return values.map((value, at) => {
    const differs = at > 0 && typeof value === "number" && typeof base === "number" && base !== 0 && value !== base;
    const percent = differs ? (100 * (value - base)) / Math.abs(base) : 0;
    const text = differs ? `${percent > 0 ? "+" : "−"}${Math.abs(percent) < 9.95 ? Math.abs(percent).toFixed(1) : Math.round(Math.abs(percent))} %` : "";
    return { text, best: best !== null && value === best };
  });
}

function numbersRow(name, values, shown, way) {
  const about = differences(values, way);
  const cell = (value, { text, best }) => h("td", { class: best ? "best" : null }, shown(value), text && h("small", null, ` ${text}`), best && h("small", null, " best"));
  return h("tr", null, h("th", { scope: "row" }, name), values.map((value, at) => cell(value, about[at])));
}

/** Return a curve over time or, with `steps`, over the step at each time. Leaves out steps that were later repeated. */
export function over(points, steps) {
  const curve = { u: [], v: [] };
  const known = steps?.t.map((t, i) => [t, steps.v[i]]).filter(([, v]) => v != null);
  const at = known && { u: known.map(([t]) => t), v: known.map(([, v]) => v) };
  points.t.forEach((t, i) => {
    const u = at ? valueAt(at, t) : t;
    const last = curve.u.at(-1) ?? -Infinity;
    if (u == null || points.again[i] || (at && points.v[i] == null) || u < last) return;
    curve.u.push(u === last ? u + 1e-6 : u);
    curve.v.push(points.v[i]);
  });
  return curve;
}

/** Return a map from the names of the options in a job file to their values. */
function optionsOf(file) {
  const found = new Map();
  let table = "";
  for (const line of (file ?? "").split("\n")) {
    const [, name, value] = line.match(/^([^=[]+?) = (.*)$/) ?? [];
    if (name) found.set(`${table}${name}`, value);
    else if (/^\[.+\]$/.test(line)) table = `${line.slice(1, -1)}.`;
  }
  return found;
}

// Charts of what the tasks report and of the resources that they use, on the same time axis as the lanes.

import { DASHES, fill, h, keyed, mark, save, say, taskName, toggle } from "./dom.js";
import { clock, quantity, seconds } from "./format.js";
import { gestures } from "./gestures.js";
import { paletteOf } from "./lane_paint.js";
import { LEFT } from "./lanes.js";
import { plotting } from "./plotting.js";
import { Points, SPEED, alone, attemptsOf, csvOf, curveOf, firstChoice, joined, mean, metricsOf, newest, rangeOf, smooth, sourceName, valueAt } from "./series.js";

const HEIGHT = 104;
const MOST_NAMED = 32; // the maximum number of tasks in a legend
const MOST_BANDS = 4; // the maximum number of curves in a chart for which the range of values is shaded
const MOST_CURVES = 8; // a chart with curves of more tasks begins with their mean and range
const PAUSE = 1000; // milliseconds; the minimum time between fetches
const POINTS = 800;
const HOW = ["log scale", "smooth", "mean and range", "as a table"];
const [LOG, SMOOTH, MEAN, TABLE] = HOW;
let uPlot = null; // loaded with the first points

export class Curves {
  constructor(store, source, timeline) {
    Object.assign(this, { store, source, timeline });
    this.chosen = null;
    this.charts = new Map();
    this.points = new Points();
    this.buttons = h("div", { class: "chips", role: "group", "aria-label": "Curves that are shown" });
    this.list = h("div", { class: "charts" });
    this.empty = h("p", { class: "empty" }, "Curves begin with the first step that a task reports.");
    this.how = {}; // which options of HOW are switched on
    this.moved = null; // called when the user changes what is shown
    this.tools = new Map(HOW.map((name) => [name, toggle(name, (on) => this.change(name, on))]));
    const tools = [...this.tools.values()];
    const csv = h("button", { class: "chip", type: "button", onclick: () => this.toCsv() }, "CSV");
    const head = h("div", { class: "head" }, h("h2", null, "Curves"), this.buttons, h("div", { class: "tools" }, tools, csv));
    this.root = h("div", { class: "curves" }, head, this.list, this.empty);
    store.on(["series", "attempt"], () => this.update());
    store.onValue(["task"], () => store.colors(), () => this.update());
    store.on(["task", "run"], () => this.charts.forEach((chart) => this.showValues(chart)));
    timeline.on((what) => this.follow(what));
    new ResizeObserver(() => this.resize()).observe(this.list);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  update() {
    this.metrics = metricsOf(this.store);
    this.empty.hidden = this.metrics.length > 0;
    this.begin();
    const shown = this.shown();
    keyed(this.buttons, this.metrics, (m) => m.name, (m) => this.button(m.name), (chip, m) => {
      mark(chip, "aria-pressed", String(shown.includes(m.name)));
    });
    const versions = this.store.all("series").map((one) => `${one.name}/${one.task}:${one.version}`).join();
    if (versions !== this.versions) {
      this.versions = versions;
      this.fetchSoon();
    }
    this.build();
  }

  change(name, on) {
    this.how[name] = on;
    this.rebuild();
    this.moved?.();
  }

  /** Return what the user has chosen: the names of curves, the options that are switched on, and the only task, each or null. */
  place() {
    const how = HOW.filter((name) => this.how[name]);
    return { chosen: this.chosen, how: this.touched || how.length ? how : null, only: this.only ?? null };
  }

  /** Show what `place` returned. */
  restore({ chosen, how, only }) {
    Object.assign(this, { chosen, only });
    if (how) this.switchOn(how);
    this.rebuild();
    this.update();
    this.fetchSoon(0);
  }

  /** Switch on these options, and all others off. */
  switchOn(how) {
    this.touched = true;
    for (const [name, button] of this.tools) {
      this.how[name] = how.includes(name);
      mark(button, "aria-pressed", String(this.how[name]));
    }
  }

  /** Curves of many tasks begin as their mean and range, which fit into a chart. */
  begin() {
    if (this.touched || !this.metrics.some((metric) => metric.tasks.length > MOST_CURVES)) return;
    this.switchOn([MEAN]);
  }

  shown() {
    const names = this.metrics.map((m) => m.name);
    return (this.chosen ?? firstChoice(this.metrics)).filter((name) => names.includes(name));
  }

  toCsv() {
    save(`${this.store.get("run").id}.csv`, csvOf([...this.charts.values()], (u) => this.timeline.toT(u)));
  }

  /** Show only the curves of one task; if they are already the only ones, show those of all tasks again. */
  choose(task) {
    this.only = this.only === task ? null : task;
    this.moved?.();
    for (const button of this.list.querySelectorAll(".values button")) mark(button, "aria-pressed", String(button.textContent === this.only));
    this.rebuild();
  }

  button(name) {
    return h("button", { class: "chip", type: "button", onclick: () => this.toggle(name) }, name);
  }

  toggle(name) {
    const shown = this.shown();
    this.chosen = shown.includes(name) ? shown.filter((n) => n !== name) : [...shown, name];
    this.moved?.();
    this.update();
    this.fetchSoon(0);
  }

  /** Fetch the points of the charts that are shown, at most once per second. */
  fetchSoon(pause = Math.max(0, PAUSE - (performance.now() - (this.fetched ?? -PAUSE)))) {
    if (pause === 0) clearTimeout(this.timer);
    else if (this.timer) return;
    this.timer = setTimeout(() => this.fetch(), pause);
  }

  async fetch() {
    this.timer = null;
    if (this.busy || document.hidden) return this.fetchSoon(PAUSE);
    Object.assign(this, { busy: true, fetched: performance.now() });
    const [a, b] = this.timeline.view();
    const names = this.charted().flatMap(({ name, tasks }) => tasks.map((task) => sourceName(name, task)));
    try {
      const [from, to] = this.timeline.range ? [this.timeline.toT(a), this.timeline.toT(b)] : [null, null];
      const about = [from, to, attemptsOf(this.store)];
      await this.points.fetch(names, about, (begin) => this.source.series([...new Set(names)], begin ?? from, to, POINTS));
      this.failed = null;
      uPlot = await plotting();
      this.plot();
    } catch (error) {
      if (!error.kind) reportError(error); // an error without a kind is a bug of the page
      this.failed = error.kind;
      this.versions = null; // fetch again after the next update of the store; a banner already says that the server is gone
    } finally {
      this.busy = false;
    }
    return undefined;
  }

  charted() {
    return this.shown().map((name) => this.metrics.find((m) => m.name === name));
  }

  build() {
    const before = this.charts.size;
    keyed(this.list, this.charted(), (m) => `${m.name} ${m.tasks.join()}`, (m) => this.makeChart(m));
    for (const [key, chart] of this.charts) {
      if (!chart.root.parentNode) {
        chart.plot?.destroy();
        this.charts.delete(key);
      }
    }
    if (this.charts.size !== before) this.fetchSoon(0);
  }

  rebuild() {
    for (const chart of this.charts.values()) {
      chart.plot?.destroy();
      chart.plot = null;
    }
    this.plot();
  }

  makeChart(metric) {
    const color = (task) => this.store.get(`task/${task}`)?.color ?? 0;
    const values = metric.tasks.slice(0, MOST_NAMED).map((task) => {
      const value = h("b");
      const name = h("button", { class: "link", type: "button", title: `Only ${task}`, "aria-pressed": String(task === this.only), onclick: () => this.choose(task) }, taskName(task, color(task)));
      return { task, value, root: h("span", null, name, value) };
    });
    const more = metric.tasks.length > MOST_NAMED ? h("span", null, `and ${metric.tasks.length - MOST_NAMED} more`) : null;
    const at = h("time");
    const place = h("div", { class: "place" });
    const table = h("table", { hidden: true });
    const legend = h("div", { class: "values" }, h("strong", null, metric.name), at, values.map((v) => v.root), more);
    const root = h("figure", { class: "chart", "aria-label": `${metric.name} of ${metric.tasks.join(", ")}` }, legend, place, table);
    const chart = { metric, values, at, place, table, root, color, selection: h("div", { class: "selection", hidden: true }) };
    gestures(place, this.timeline, chart.selection, {
      left: LEFT,
      hover: (x) => this.timeline.point(x == null ? null : this.tOf(x)),
    });
    this.charts.set(metric.name, chart);
    return root;
  }

  tOf(x) {
    const [a, b] = this.timeline.view();
    return this.timeline.toT(a + (x / (this.width() - LEFT)) * (b - a));
  }

  width() {
    return this.list.clientWidth;
  }

  /** Draw all points that were fetched. */
  plot() {
    for (const chart of this.charts.values()) {
      const { metric } = chart;
      const all = metric.tasks.filter((task) => !metric.tasks.includes(this.only) || task === this.only).map((task) => {
        const points = this.points.of[sourceName(metric.name, task)] ?? { t: [], v: [] };
        return { ...curveOf(metric.name, points, this.timeline), task };
      });
      const { how } = this;
      const curves = (how[MEAN] && all.length > 1 ? [mean(all)] : all).map((curve) => (how[SMOOTH] ? smooth(curve) : curve));
      Object.assign(chart, { all, curves });
      const bands = curves.length <= MOST_BANDS;
      const shown = how[LOG] ? (column) => column.map((v) => (v > 0 ? v : null)) : (column) => column;
      const data = joined(curves, (c) => (bands ? [c.v, c.again, c.high, c.low] : [c.v, c.again]).map(shown));
      chart.isEmpty = data.slice(1).every((column) => column.every((v) => v == null));
      if (!chart.plot && uPlot && this.width() > LEFT) this.makePlot(chart, bands, data);
      else chart.plot?.setData(data, false);
      this.scale(chart);
      this.showValues(chart);
    }
  }

  makePlot(chart, bands, data) {
    const palette = paletteOf(this.root);
    const series = [{}];
    const shaded = [];
    for (const { task } of chart.curves) {
      const stroke = palette(`task-${chart.color(task) % 8}`);
      const dot = { show: true, size: 4, stroke, fill: stroke, filter: (plot, n) => alone(plot.data[n]) };
      series.push({ stroke, width: 1.6, dash: DASHES[(chart.color(task) >> 3) % DASHES.length], points: dot });
      series.push({ stroke: palette("panel"), width: 2.4, dash: [3, 4], points: { show: false } }); // drawn over the curve: the steps that were later repeated
      if (!bands) continue;
      const n = series.length;
      series.push({ stroke: "transparent", width: 0, points: { show: false } }, { stroke: "transparent", width: 0, points: { show: false } });
      shaded.push({ series: [n, n + 1], fill: `color-mix(in srgb, ${stroke} 18%, transparent)` });
    }
    const grid = { stroke: palette("line"), width: 1 };
    const font = `11.5px ${palette("sans")}`;
    const options = {
      width: this.width(),
      height: HEIGHT,
      padding: [8, 0, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false }, bind: NOTHING },
      scales: { x: { time: false, auto: false }, y: this.how[LOG] ? LOGARITHMS : { range: (_, low, high) => rangeOf(chart.metric, low, high) } },
      axes: [
        { show: true, size: 4, values: () => [], splits: () => this.splits(), grid, ticks: { show: false } },
        { size: LEFT, font, stroke: palette("soft"), grid, ticks: { show: false }, gap: 8, space: 32, values: (_, v) => v.map((n) => (n == null || chart.isEmpty ? "" : quantity(n, chart.metric.unit))) },
      ],
      series,
      bands: shaded,
    };
    chart.place.replaceChildren();
    chart.plot = new uPlot(options, data, chart.place);
    chart.place.append(chart.selection);
  }

  splits() {
    return this.timeline.ticks(this.width() - LEFT).at.map((t) => this.timeline.toU(t));
  }

  scale(chart) {
    const [min, max] = this.timeline.view();
    chart.plot?.setScale("x", { min, max });
    this.showTable(chart);
  }

  /** Show the curves as a table of numbers: the values at three moments of the shown range, and the newest value. */
  showTable(chart) {
    const { metric, table, curves = [] } = chart;
    chart.place.hidden = Boolean(this.how[TABLE]);
    table.hidden = !chart.place.hidden;
    if (table.hidden) return;
    const [a, b] = this.timeline.view();
    const at = [0.25, 0.5, 0.75].map((share) => a + share * (b - a));
    const heads = ["task", ...at.map((u) => clock(this.timeline.toT(u))), "newest"].map((text) => h("th", { scope: "col" }, text));
    const row = (curve) => {
      const values = [...at.map((u) => valueAt(curve, u)), newest(metric.name, curve, this.store.get(`task/${curve.task}`), this.store.get("run"))].map((v) => h("td", null, quantity(v, metric.unit)));
      return h("tr", null, h("th", { scope: "row" }, taskName(curve.task, chart.color(curve.task))), values);
    };
    fill(table, h("caption", { class: "unseen" }, metric.name), h("thead", null, h("tr", null, heads)), h("tbody", null, curves.map(row)));
  }

  follow(what) {
    if (what === "view") {
      const range = String(this.timeline.range);
      if (range !== this.ranged) this.fetchSoon();
      this.ranged = range;
      const folds = this.timeline.gaps.length + String(this.timeline.folds);
      if (folds !== this.folded) this.plot();
      this.folded = folds;
      for (const chart of this.charts.values()) this.scale(chart);
    }
    for (const chart of this.charts.values()) this.point(chart);
  }

  point(chart) {
    const t = this.timeline.cursor;
    if (!chart.plot) return;
    if (t == null) chart.plot.setCursor({ left: -10, top: -10 }, false);
    else chart.plot.setCursor({ left: chart.plot.valToPos(this.timeline.toU(t), "x"), top: 10 }, false);
    this.showValues(chart);
  }

  /** Show the values at the cursor; without a cursor, the newest values. */
  showValues(chart) {
    let [t, isEmpty] = [this.timeline.cursor, chart.isEmpty]; // a task's row may already have a value while the chart is still empty
    for (const { task, value } of chart.values) {
      const curve = chart.all?.find((one) => one.task === task);
      const found = curve && (t == null ? newest(chart.metric.name, curve, this.store.get(`task/${task}`), this.store.get("run")) : valueAt(curve, this.timeline.toU(t)));
      isEmpty &&= found == null;
      say(value, curve ? quantity(found, chart.metric.unit) : "");
    }
    say(chart.at, t == null ? this.aboutNewest(chart, isEmpty) : `at ${clock(t)}`);
  }

  /** Say what the newest values of a chart are, or why there are none. */
  aboutNewest({ metric, all }, isEmpty) {
    const windows = metric.name === SPEED ? (all ?? []).map((one) => one.window).filter(Boolean) : [];
    if (!isEmpty) return windows.length ? `mean over ${seconds(Math.max(...windows))}` : "";
    if (this.failed === "gone" || this.failed === "refused") return "not fetched: the server does not answer";
    return this.store.isLive() ? "no values yet" : "no values";
  }

  resize() {
    const width = this.width();
    if (!width) return;
    for (const chart of this.charts.values()) chart.plot?.setSize({ width, height: HEIGHT });
    if ([...this.charts.values()].some((chart) => !chart.plot)) this.plot();
  }
}

const LOGARITHMS = { distr: 3, range: (_, low, high) => (low == null ? [1, 10] : uPlot.rangeLog(low, high, 10, true)) };

/** Switches off uPlot's own event handlers, since the page moves the cursor. */
const NOTHING = Object.fromEntries(["mousedown", "mouseup", "click", "dblclick", "mousemove", "mouseleave", "mouseenter"].map((name) => [name, () => null]));

// The lanes: a chart of the tasks over time, in which the user can zoom and choose a moment.

import { h, hueOf, say } from "./dom.js";
import { clock } from "./format.js";
import { attemptAt, gapsOf, lanesOf, linesOf, momentsOf } from "./lane_items.js";
import { AXIS, TOP, paint, paintAxis, paletteOf, patterns } from "./lane_paint.js";
import { gestures } from "./gestures.js";

export const LEFT = 96; // pixels; the width of the tasks' names, which equals the width of the curves' axes
const NEAR = 7; // pixels; a pointer this close to a mark selects the mark
const HINT =
  "Arrow keys go from moment to moment, plus and minus zoom, Shift with arrow keys moves, 0 shows everything, Enter opens the log there.";

export class Lanes {
  /** `choose({t, task, attempt, text})` is called when the user chooses a moment. */
  constructor(store, timeline, choose) {
    Object.assign(this, { store, timeline, choose });
    this.names = h("div", { class: "names", "aria-hidden": "true" });
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.axis = h("canvas", { class: "axis", "aria-hidden": "true" });
    this.cursor = h("div", { class: "cursor", hidden: true });
    this.selection = h("div", { class: "selection", hidden: true });
    this.plot = h("div", { class: "plot" }, this.canvas, this.cursor, this.selection);
    this.tip = h("div", { class: "tip", role: "presentation", hidden: true });
    this.spoken = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
    this.root = h(
      "div",
      { class: "lanes", tabindex: "0", role: "group", "aria-label": "Tasks over time", "aria-description": HINT },
      h("div", { class: "rows-of-lanes" }, this.names, this.plot),
      this.axis,
      this.tip,
      this.spoken,
    );
    this.lanes = { rows: [], ofRun: [], links: [] };
    this.moments = [];
    this.width = 0;
    this.asked = false;
    store.on(["attempt", "mark", "link"], () => this.refresh());
    store.onValue(["task"], () => store.colors(), () => this.refresh());
    store.onValue(["run"], () => store.isLive(), () => this.extend());
    timeline.on((what) => (what === "cursor" ? this.point() : this.draw()));
    new ResizeObserver(() => this.draw()).observe(this.plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.palette = null;
      this.draw();
    });
    gestures(this.plot, timeline, this.selection, {
      left: 0,
      hover: (x, y) => this.hover(x, y),
      click: (x, y) => this.click(x, y),
    });
    this.root.addEventListener("keydown", (event) => this.key(event));
    setInterval(() => this.tick(), 500);
  }

  /** Extend the time axis while the run is live. */
  tick() {
    const run = this.store.get("run");
    if (run && run.phase !== "over" && !document.hidden) this.extend();
  }

  refresh() {
    this.lanes = lanesOf(this.store);
    this.moments = momentsOf(this.lanes);
    const rows = this.lanes.rows;
    this.laneHeight = rows.length <= 6 ? 44 : rows.length <= 14 ? 32 : 20;
    this.root.style.setProperty("--lane", `${this.laneHeight}px`);
    const names = rows.map((row) => `${row.task} ${row.color}`).join();
    if (names !== this.named) {
      this.named = names;
      this.names.replaceChildren(...rows.map((row) => h("div", { class: hueOf(row.color) }, row.task)));
    }
    this.extend();
  }

  extend() {
    const now = this.store.now();
    this.timeline.extend(now, gapsOf(this.lanes, now));
  }

  /** Draw the lanes before the next frame. */
  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.drawNow();
    });
  }

  drawNow() {
    const width = this.plot.clientWidth;
    if (!width) return;
    const context = contextOf(this.canvas, width, TOP + this.lanes.rows.length * this.laneHeight);
    const axis = contextOf(this.axis, width, AXIS);
    if (!this.palette) {
      this.palette = paletteOf(this.root);
      this.hatch = patterns(context, this.palette);
    }
    this.width = width;
    const { lanes, timeline, laneHeight, palette, hatch } = this;
    const scene = { lanes, timeline, laneHeight, palette, hatch, width, now: this.store.now() };
    paint(context, scene);
    paintAxis(axis, scene);
    this.point();
  }

  xOf(t) {
    const [a, b] = this.timeline.view();
    return ((this.timeline.toU(t) - a) / (b - a)) * this.width;
  }

  tOf(x) {
    const [a, b] = this.timeline.view();
    return this.timeline.toT(a + (x / this.width) * (b - a));
  }

  /** Move the cursor line to the moment that the pointer is at, in the lanes or in a chart. */
  point() {
    const t = this.timeline.cursor;
    const x = t == null ? -1 : this.xOf(t);
    this.cursor.hidden = x < 0 || x > this.width;
    this.cursor.style.setProperty("left", `${x}px`);
  }

  /** Return what is drawn at a position, as {t, task, attempt, text, lines}. */
  at(x, y) {
    const t = this.tOf(x);
    const now = this.store.now();
    const row = this.lanes.rows[Math.floor((y - TOP) / this.laneHeight)];
    const marks = y < TOP ? this.lanes.ofRun : (row?.marks ?? []);
    let best = null;
    for (const mark of marks) {
      const distance = Math.abs(this.xOf(mark.at) - x);
      if (distance <= NEAR && (!best || distance < best.distance)) best = { distance, mark };
    }
    const attempt = row && attemptAt(row, t, now, this.tOf(x + 2) - t);
    if (best) {
      const { mark } = best;
      const nth = attempt?.attempt;
      return { t: mark.at, task: mark.task, attempt: nth, text: mark.text, lines: [`${clock(mark.at)}  ${mark.text}`] };
    }
    const lines = [`${clock(t)}${row ? `  ${row.task}` : ""}`];
    if (attempt) lines.splice(0, 1, clock(t), ...linesOf(attempt, t, now));
    else if (row) lines.push("no process at that time");
    return { t, task: row?.task ?? null, attempt: attempt?.attempt, text: lines.at(-1), lines };
  }

  hover(x, y) {
    if (x == null) {
      this.tip.hidden = true;
      this.timeline.point(null);
      return;
    }
    const found = this.at(x, y);
    this.timeline.point(this.tOf(x));
    if (found.lines.length < 2 && !found.task && y >= TOP) {
      this.tip.hidden = true;
      return;
    }
    this.tip.replaceChildren(...found.lines.map((line) => h("div", null, line)));
    this.tip.hidden = false;
    const wide = this.tip.offsetWidth;
    const left = x + LEFT + 14 + wide > this.root.clientWidth ? x + LEFT - wide - 10 : x + LEFT + 14;
    this.tip.style.setProperty("left", `${Math.max(0, left)}px`);
    const below = y + 16 - this.plot.parentElement.scrollTop;
    this.tip.style.setProperty("top", `${below}px`);
  }

  click(x, y) {
    const found = this.at(x, y);
    this.timeline.choose(found.t);
    this.choose(found);
  }

  key(event) {
    const keys = {
      ArrowRight: () => (event.shiftKey ? this.timeline.pan(0.2) : this.step(1)),
      ArrowLeft: () => (event.shiftKey ? this.timeline.pan(-0.2) : this.step(-1)),
      Home: () => this.go(this.moments[0]),
      End: () => this.go(this.moments.at(-1)),
      "+": () => this.timeline.zoom(0.6, this.around()),
      "=": () => this.timeline.zoom(0.6, this.around()),
      "-": () => this.timeline.zoom(1 / 0.6, this.around()),
      0: () => this.timeline.reset(),
      Enter: () => this.moment && this.choose(this.moment, true),
      Escape: () => {
        this.moment = null;
        this.timeline.choose(null);
        this.choose(null);
      },
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  around() {
    return this.timeline.chosen == null ? undefined : this.timeline.toU(this.timeline.chosen);
  }

  step(by) {
    const at = this.moment ? this.moments.findIndex((m) => m.t === this.moment.t && m.text === this.moment.text) : -1;
    if (at >= 0) return this.go(this.moments[Math.max(0, Math.min(at + by, this.moments.length - 1))]);
    const t = this.timeline.chosen ?? (by > 0 ? -1 : Infinity);
    return this.go(by > 0 ? this.moments.find((m) => m.t > t) : this.moments.findLast((m) => m.t < t));
  }

  go(moment) {
    if (!moment) return;
    this.moment = moment;
    this.timeline.choose(moment.t);
    const who = moment.task && !moment.text.includes(moment.task) ? `${moment.task}, ` : "";
    say(this.spoken, `${clock(moment.t)}: ${who}${moment.text}`);
    this.choose(moment);
  }
}

/** Resize a canvas, with the full resolution of the screen, and return its context. */
function contextOf(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

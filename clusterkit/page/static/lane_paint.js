// Draws the lanes on a canvas. Of several items within the same pixel, only the first is drawn.

import { END_COLORS } from "./lane_items.js";
import { tick } from "./format.js";

export const TOP = 20; // pixels; the space above the first lane for marks of the whole run
export const AXIS = 24;
const MARK_ROOM = 11;
const OUTLINES = { start: "edge", stopped: "bar-wait", stalled: "bar-wait", lost: "bar-bad" };

/** Return a function that returns a color of the palette by name, in the page's current color scheme. */
export function paletteOf(element) {
  const style = getComputedStyle(element);
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };
}

/** Convert #rrggbb to [r, g, b]. */
function rgb(hex) {
  return [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16));
}

export function mix(hex, other, share) {
  const [a, b] = [rgb(hex), rgb(other)];
  return `rgb(${a.map((n, i) => Math.round(n * share + b[i] * (1 - share))).join(" ")})`;
}

export function patterns(context, palette) {
  const make = (ground, stroke, width) => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const c = tile.getContext("2d");
    c.fillStyle = ground;
    c.fillRect(0, 0, 8, 8);
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.beginPath();
    for (const x of [-4, 4, 12]) {
      c.moveTo(x - 4, 8 + 0);
      c.lineTo(x + 4, 0);
    }
    c.stroke();
    return context.createPattern(tile, "repeat");
  };
  return {
    lost: make(palette("bar-lost"), palette("bar-bad"), 1.6),
    stalled: make(mix(palette("bar-wait"), palette("panel"), 0.35), palette("bar-wait"), 2.4),
  };
}

/** Draw the lanes. `scene` has lanes, timeline, now, width, laneHeight, hatch and palette. */
export function paint(context, scene) {
  const { width, lanes, laneHeight, timeline } = scene;
  const height = TOP + lanes.rows.length * laneHeight;
  context.clearRect(0, 0, width, height);
  const [a, b] = timeline.view();
  const scale = width / (b - a);
  const x = (t) => (timeline.toU(t) - a) * scale;
  const p = { ...scene, context, x, scale, height };
  paintGrid(p);
  lanes.rows.forEach((row, index) => paintRow(p, row, TOP + index * laneHeight));
  paintLinks(p);
  lanes.rows.forEach((row, index) => paintMarks(p, row.marks, TOP + index * laneHeight));
  paintMarks(p, lanes.ofRun, 2, true);
  paintChosen(p);
}

function paintGrid({ context: c, timeline, x, width, height, palette }) {
  c.fillStyle = palette("line");
  for (const t of timeline.ticks(width).at) c.fillRect(Math.round(x(t)), TOP - 4, 1, height - TOP + 4);
  for (const gap of timeline.gaps) paintGap(c, x(gap.begin), x(gap.end), height, palette);
}

/** Draw the times below the lanes. They have their own canvas, so that they stay visible when the lanes are scrolled. */
export function paintAxis(c, { timeline, width, palette }) {
  const { at, step } = timeline.ticks(width);
  const [a, b] = timeline.view();
  c.clearRect(0, 0, width, AXIS);
  c.fillStyle = palette("soft");
  c.font = `11.5px ${palette("sans")}`;
  c.textBaseline = "top";
  for (const t of at) {
    const px = ((timeline.toU(t) - a) / (b - a)) * width;
    const text = tick(t, step);
    const half = c.measureText(text).width / 2;
    c.textAlign = px < half ? "left" : px > width - half ? "right" : "center";
    c.fillText(text, Math.max(0, Math.min(px, width)), 6);
  }
}

function paintGap(c, left, right, height, palette) {
  c.fillStyle = palette("raised");
  c.fillRect(left, TOP - 4, right - left, height - TOP + 4);
  c.strokeStyle = palette("edge");
  c.lineWidth = 1;
  c.beginPath();
  const middle = (left + right) / 2;
  for (let y = TOP - 4; y <= height; y += 6) c.lineTo(middle + ((y / 6) & 1 ? 2 : -2), y);
  c.stroke();
}

function paintRow(p, row, top) {
  const { context: c, laneHeight, palette, width, x, now } = p;
  const room = laneHeight >= 30 ? MARK_ROOM : 3;
  const bar = { y: top + room, height: laneHeight - room - (laneHeight >= 30 ? 9 : 3) };
  c.fillStyle = palette("line");
  c.fillRect(0, top + laneHeight - 1, width, 1);
  const body = palette(`task-${row.color % 8}`);
  let drawn = -1; // the last column of pixels that an attempt with less than 2 pixels has filled
  for (const attempt of row.attempts) {
    const left = x(attempt.begin);
    if (left > width) break;
    const right = x(attempt.end ?? now);
    if (right < 0) continue;
    if (right - left < 2) {
      if (Math.floor(left) <= drawn) continue;
      drawn = Math.floor(left) + 1;
      c.fillStyle = END_COLORS[attempt.how] ? palette(END_COLORS[attempt.how]) : body;
      c.fillRect(Math.floor(left), bar.y, 2, bar.height);
      continue;
    }
    paintAttempt(p, attempt, bar, left, right, body);
  }
}

function paintAttempt(p, attempt, bar, left, right, body) {
  const { context: c, palette, hatch, x, now, width } = p;
  const from = Math.max(left, -8);
  const to = Math.min(right, width + 8);
  c.save();
  c.beginPath();
  c.roundRect(from, bar.y, to - from, bar.height, Math.min(3, (to - from) / 2));
  c.clip();
  const parts = attempt.segments.length ? attempt.segments : [{ begin: attempt.begin, end: attempt.end, kind: "run" }];
  let until = -Infinity;
  for (const part of parts) {
    const l = Math.max(x(part.begin), from);
    const r = Math.min(x(part.end ?? attempt.end ?? now), to);
    if (r <= l || r < until + 0.3) continue;
    until = r;
    c.fillStyle = fillOf(part.kind, palette, hatch, body);
    c.fillRect(l, bar.y, Math.max(r - l, 1), bar.height);
    if (part.kind in OUTLINES) outline(c, palette(OUTLINES[part.kind]), l, r, bar);
  }
  const end = END_COLORS[attempt.how];
  if (end && right <= width + 8) {
    c.fillStyle = palette(end);
    c.fillRect(right - Math.min(5, (right - left) / 2), bar.y, 5, bar.height);
  }
  c.restore();
  paintLabel(p, attempt, bar, Math.max(left, 0), Math.min(right, width));
}

function fillOf(kind, palette, hatch, body) {
  if (kind === "start") return palette("bar-start");
  if (kind === "lost") return hatch.lost;
  if (kind === "stopped") return palette("bar-wait");
  if (kind === "stalled") return hatch.stalled;
  if (kind === "idle") return palette("raised");
  return body;
}

function outline(c, color, left, right, bar) {
  c.strokeStyle = color;
  c.lineWidth = 1;
  c.strokeRect(left + 0.5, bar.y + 0.5, Math.max(right - left - 1, 0), bar.height - 1);
}

/** Draw the attempt's number, but not for first attempts. */
function paintLabel({ context: c, palette }, attempt, bar, left, right) {
  if (attempt.attempt < 2 || bar.height < 16) return;
  const text = right - left > 74 ? `attempt ${attempt.attempt}` : String(attempt.attempt);
  if (right - left < 18) return;
  c.font = `11px ${palette("sans")}`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  const wide = c.measureText(text).width;
  if (wide + 12 > right - left) return;
  c.fillStyle = palette("panel");
  c.globalAlpha = 0.88;
  c.beginPath();
  c.roundRect(left + 4, bar.y + bar.height / 2 - 7, wide + 8, 14, 3);
  c.fill();
  c.globalAlpha = 1;
  c.fillStyle = palette("ink");
  c.fillText(text, left + 8, bar.y + bar.height / 2 + 0.5);
}

function paintLinks({ context: c, lanes, x, laneHeight, palette, width }) {
  const rows = new Map(lanes.rows.map((row, index) => [row.task, index]));
  c.strokeStyle = palette("bad");
  c.lineWidth = 1.3;
  c.setLineDash([3, 3]);
  for (const { cause, effect } of lanes.links) {
    const [from, to] = [rows.get(cause[0]), rows.get(effect[0])];
    const [left, right] = [x(cause[1]), x(effect[1])];
    if (from == null || to == null || Math.max(left, right) < 0 || Math.min(left, right) > width) continue;
    const [y0, y1] = [TOP + (from + 0.5) * laneHeight, TOP + (to + 0.5) * laneHeight];
    const bend = Math.max(14, Math.abs(right - left) / 2);
    c.beginPath();
    c.moveTo(left, y0);
    c.bezierCurveTo(left + bend, y0, right + bend, y1, right, y1);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    c.arc(right, y1, 2.5, 0, 7);
    c.fillStyle = palette("bad");
    c.fill();
    c.setLineDash([3, 3]);
  }
  c.setLineDash([]);
}

const MARKS = { fault: "bad", heal: "ok", checkpoint: "ok", stall: "wait", restart: "soft", warning: "wait", request: "run", host: "soft" };
const RANK = { checkpoint: 0, restart: 1, host: 1, request: 2, heal: 2, warning: 3, stall: 4, fault: 5 };

function paintMarks(p, marks, top, ofRun = false) {
  const { context: c, laneHeight, palette, width, x } = p;
  const small = laneHeight < 30;
  let textUntil = -Infinity;
  const shown = thinned(marks.map((one) => [x(one.at), one]).filter(([px, one]) => x(one.until ?? one.at) > -20 && px < width + 20));
  for (const [px, one] of shown) {
    c.fillStyle = c.strokeStyle = palette(MARKS[one.kind] ?? "soft");
    const below = one.kind === "checkpoint" && !small && !ofRun;
    const y = below ? top + laneHeight - 5 : ofRun ? top + 6 : top + 5;
    if (one.kind === "fault" && one.until != null) c.fillRect(px, y - 1, Math.max(2, x(one.until) - px), 2); // a line for the duration of the fault
    paintGlyph(c, one.kind, px, y);
  }
  if (small && !ofRun) return;
  c.font = `11px ${palette("sans")}`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillStyle = palette("soft");
  const taken = shown.filter(([, one]) => one.kind !== "checkpoint" || ofRun);
  taken.forEach(([px, one], index) => {
    if (one.kind !== "fault" && one.kind !== "stall" && !ofRun) return;
    const text = wordsOf(one, ofRun);
    const wide = c.measureText(text).width;
    const next = taken[index + 1]?.[0] ?? Infinity;
    if (px + 8 < textUntil || px + 10 + wide > Math.min(next - 6, width)) return;
    if (one.kind === "fault" && one.until != null) c.clearRect(px + 6, top - 1, wide + 4, 12); // remove the fault's line behind the text
    c.fillText(text, px + 8, ofRun ? top + 6.5 : top + 5.5);
    textUntil = px + 16 + wide;
  });
}

/** Leave out marks that would cover more important marks. Checkpoints have their own line, so they cover no others. */
function thinned(places) {
  const taken = { above: new Set(), below: new Set() };
  const kept = places.toSorted((m, n) => (RANK[n[1].kind] ?? 0) - (RANK[m[1].kind] ?? 0) || m[0] - n[0]).filter(([px, one]) => {
    const cells = one.kind === "checkpoint" ? taken.below : taken.above;
    const cell = Math.round(px / (one.kind === "checkpoint" ? 3 : 8));
    if ([cell - 1, cell, cell + 1].some((near) => cells.has(near))) return false;
    cells.add(cell);
    return true;
  });
  return kept.sort((m, n) => m[0] - n[0]);
}

/** Return a short text for a mark; the tooltip and the story have the full text. */
function wordsOf(one, ofRun) {
  if (one.kind === "fault") return one.text.replace(/^Fault \d+: /, "").split(/[ ,]/)[0];
  if (one.kind === "stall") return "stall noticed";
  if (one.kind === "restart") return one.kind;
  return ofRun && one.text.length < 40 ? one.text : "";
}

function paintGlyph(c, kind, x, y) {
  c.beginPath();
  if (kind === "fault") path(c, [[x - 5, y - 4], [x + 5, y - 4], [x, y + 4.5]]);
  else if (kind === "heal") path(c, [[x - 4.5, y + 4], [x + 4.5, y + 4], [x, y - 4]]);
  else if (kind === "stall" || kind === "warning") path(c, [[x, y - 5], [x + 5, y], [x, y + 5], [x - 5, y]]);
  else if (kind === "host") path(c, [[x - 4, y - 4], [x + 4, y - 4], [x + 4, y + 4], [x - 4, y + 4]]);
  else if (kind === "checkpoint") c.arc(x, y, 2.6, 0, 7);
  else {
    c.lineWidth = 1.6;
    if (kind === "restart") c.arc(x, y, 3.2, 0.6, 5.6);
    else c.arc(x, y, 3, 0, 7);
    c.stroke();
    return;
  }
  c.fill();
}

function path(c, points) {
  c.moveTo(...points[0]);
  for (const point of points.slice(1)) c.lineTo(...point);
  c.closePath();
}

function paintChosen({ context: c, timeline, x, height, palette }) {
  if (timeline.chosen == null) return;
  c.fillStyle = palette("focus");
  c.fillRect(Math.round(x(timeline.chosen)) - 1, TOP - 6, 2, height - TOP + 6);
}

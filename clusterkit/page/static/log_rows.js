// A row of the log. What a task wrote is only ever text.

import { LONGEST, pieces } from "./ansi.js";
import { h, hueOf } from "./dom.js";
import { bytes, clock } from "./format.js";

/** When a line was written: in seconds of the run, or by the clock of this machine if `wall` is when the run began. */
function timeOf({ t }, wall) {
  if (t == null) return "";
  return wall == null ? t.toFixed(2) : new Date(1000 * (wall + t)).toTimeString().slice(0, 8);
}

/** The element of a line. `current`: it was searched for, or its moment was chosen; `found`: a text to mark in it. */
export function rowOf(line, current, colors, found, wall) {
  if (line.gap != null) return h("div", { class: "row gap" }, gapText(line));
  const color = colors.get(line.task);
  return h(
    "div",
    { class: current ? "row now" : "row", title: line.attempt ? `${clock(line.t)}, ${line.task}, attempt ${line.attempt}` : null },
    h("time", null, timeOf(line, wall)),
    h("span", { class: color == null ? "task own" : hueOf(color) }, line.task ?? "clusterkit"),
    h("span", { class: "text" }, textsOf(line, found.toLowerCase())),
  );
}

/** A line as it is saved. */
export function textOf(line, wall) {
  return line.gap == null ? `${timeOf(line, wall)} ${line.task ?? "clusterkit"} ${line.plain}\n` : `${gapText(line)}\n`;
}

function gapText({ gap, live, task }) {
  if (live) return `… ${bytes(gap)} skipped: the log grew faster than it could be shown`;
  return `… ${bytes(gap)}${task ? ` of ${task}` : ""} left out of this report`;
}

function textsOf(line, wanted) {
  if (wanted && line.plain.toLowerCase().includes(wanted)) return marked(line.plain.slice(0, LONGEST), wanted);
  return pieces(line.text).map(({ text, classes }) => (classes ? h("span", { class: classes }, text) : text));
}

/** A text in which what was searched for is marked. */
function marked(text, wanted) {
  const lower = text.toLowerCase();
  const parts = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0 && parts.length < 200; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), h("mark", null, text.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
}

// A row of the log. Output of tasks is always shown as plain text, never as markup.

import { LONGEST, pieces } from "./ansi.js";
import { h, hueOf } from "./dom.js";
import { bytes, clock } from "./format.js";

/** Format the time of a line in seconds since the run began; in local time if `wall` is the wall time of the beginning. */
function timeOf({ t }, wall) {
  if (t == null) return "";
  return wall == null ? t.toFixed(2) : new Date(1000 * (wall + t)).toTimeString().slice(0, 8);
}

/** Create the element of a line. `current`: the line is highlighted; `found`: the text to mark in the line. */
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

/** Format a line for a saved log. */
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

/** Return the parts of a text, in which all matches of `wanted` are marked. */
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

// Computes what the lanes show from the entities: rows of attempts and marks, links, and a list of moments.

import { byTask, seconds } from "./format.js";
import { idleGaps } from "./timeline.js";

/** Maps how an attempt ended to the name of a color in the palette. Other attempts have no such color. */
export const END_COLORS = { failed: "bar-bad", fault: "bar-bad", collateral: "bar-wait", lost: "bar-bad", success: "bar-ok" };
export const ENDED = {
  running: "is running",
  success: "succeeded",
  failed: "failed",
  fault: "was ended by a fault",
  collateral: "failed because of another task",
  asked: "was restarted on request",
  ended: "was ended with the run",
  lost: "was lost",
};
export const SEGMENTS = {
  start: "starting",
  run: "running",
  lost: "steps that were lost",
  stopped: "paused",
  stalled: "stalled",
  idle: "idle",
};

export function lanesOf(store) {
  const rows = new Map();
  const rowOf = (task) => {
    if (!rows.has(task)) rows.set(task, { task, color: 0, attempts: [], marks: [] });
    return rows.get(task);
  };
  for (const row of store.all("task")) rowOf(row.task).color = row.color;
  for (const attempt of store.all("attempt")) rowOf(attempt.task).attempts.push(attempt);
  const ofRun = [];
  for (const mark of store.all("mark")) (mark.task ? rowOf(mark.task).marks : ofRun).push(mark);
  const sorted = [...rows.values()].sort((a, b) => byTask(a.task, b.task));
  for (const row of sorted) {
    row.attempts.sort((a, b) => a.begin - b.begin);
    row.marks.sort((a, b) => a.at - b.at);
  }
  ofRun.sort((a, b) => a.at - b.at);
  return { rows: sorted, ofRun, links: store.all("link") };
}

/** Return the idle gaps of a run up to `now`. */
export function gapsOf(lanes, now) {
  const busy = [];
  for (const row of lanes.rows) {
    for (const attempt of row.attempts) {
      const parts = attempt.segments.filter((s) => s.kind !== "idle");
      if (!parts.length) busy.push([attempt.begin, attempt.end ?? now]);
      for (const part of parts) busy.push([part.begin, part.end ?? attempt.end ?? now]);
    }
    for (const mark of row.marks) busy.push([mark.at, mark.at + 0.05]);
  }
  return idleGaps(busy, now);
}

/** Return the moments that the arrow keys step through, [{t, task, attempt, text}], in chronological order. */
export function momentsOf(lanes) {
  const found = [];
  for (const mark of lanes.ofRun) found.push({ t: mark.at, task: null, text: mark.text });
  for (const row of lanes.rows) {
    for (const mark of row.marks) found.push({ t: mark.at, task: row.task, text: mark.text });
    for (const one of row.attempts) {
      found.push({ t: one.begin, task: row.task, attempt: one.attempt, text: `${row.task}: attempt ${one.attempt} begins` });
      if (one.end != null) found.push({ t: one.end, task: row.task, attempt: one.attempt, text: endOf(one) });
    }
  }
  return found.sort((a, b) => a.t - b.t);
}

export function endOf(attempt) {
  const how = attempt.text || ENDED[attempt.how] || attempt.how;
  return `${attempt.task}, attempt ${attempt.attempt}: ${how}`;
}

/** Return the lines of text that describe an attempt at a moment. */
export function linesOf(attempt, t, now) {
  const end = attempt.end ?? now;
  const lines = [`${attempt.task}, attempt ${attempt.attempt}: ${ENDED[attempt.how] ?? attempt.how}`];
  if (attempt.text) lines.push(attempt.text);
  const segment = segmentAt(attempt, t, now);
  if (segment) {
    const long = seconds((segment.end ?? end) - segment.begin);
    lines.push(segment.text ? `${segment.text} (${long})` : `${SEGMENTS[segment.kind] ?? segment.kind} for ${long}`);
  }
  if (attempt.steps) {
    const from = attempt.resumed != null ? `, resumed at ${attempt.resumed}` : "";
    lines.push(`steps ${attempt.steps[0]} to ${attempt.steps[1]}${from}`);
  }
  return lines;
}

export function segmentAt(attempt, t, now) {
  return attempt.segments.findLast((s) => s.begin <= t && t <= (s.end ?? attempt.end ?? now));
}

/** Return the last attempt that ran at `t`, or within `slack` seconds of it. */
export function attemptAt(row, t, now, slack = 0) {
  return row.attempts.findLast((a) => a.begin - slack <= t && t <= (a.end ?? now) + slack);
}

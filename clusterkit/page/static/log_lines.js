// The lines of the log that the page has loaded: a limited number of consecutive lines between two cursors.

import { plain } from "./ansi.js";

export const MOST = 20_000; // the maximum number of loaded lines

export class LogLines {
  constructor(most = MOST) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.lines = [];
    this.previous = null; // the cursor for the lines before the first one; null if there are no such lines
    this.next = null; // the cursor for the lines after the last one
    this.dropped = 0; // the number of lines that were dropped at the top so far
  }

  /** Replace all lines by those of an answer. `back`: the request was for the lines before a cursor. */
  set(answer, back) {
    this.clear();
    this.append({ ...answer, done: back || answer.done });
    this.previous = before(answer, back);
  }

  /** Add lines at the end. Returns the number of lines that were dropped at the top. */
  append({ lines, skipped, next, done }) {
    this.ended = done !== false;
    if (skipped) this.lines.push({ gap: skipped, live: true });
    for (const line of lines.length > this.most ? lines.slice(-this.most) : lines) this.lines.push(shaped(line));
    if (next !== undefined) this.next = next;
    return this.trimTop();
  }

  /** Add lines at the top. Returns their number. */
  prepend(answer) {
    const added = answer.lines.map(shaped);
    this.lines.unshift(...added);
    this.previous = before(answer, true);
    if (this.lines.length > this.most) {
      const cut = this.lines.slice(this.most).find((line) => line.cursor != null);
      this.lines.length = this.most;
      this.next = cut?.cursor ?? this.next; // the lines from here on have to be fetched again
      this.ended = false;
    }
    return added.length;
  }

  trimTop() {
    const over = this.lines.length - this.most;
    if (over <= 0) return 0;
    this.lines.splice(0, over);
    this.previous = this.lines.find((line) => line.cursor != null)?.cursor ?? this.previous;
    this.dropped += over;
    return over;
  }

  /** Return the index of the first line that was written at or after a moment. */
  indexAt(t) {
    const at = this.lines.findIndex((line) => line.t != null && line.t >= t);
    return at < 0 ? this.lines.length - 1 : at;
  }

  /** Return the indexes of the lines that contain a text, ignoring case. */
  find(text) {
    const wanted = text.toLowerCase();
    const found = [];
    if (wanted) this.lines.forEach((line, i) => line.plain?.toLowerCase().includes(wanted) && found.push(i));
    return found;
  }
}

/** Return the cursor for the lines before an answer; null if there are no such lines. */
function before({ previous, done }, back) {
  return (back && done !== false) || !previous || /^0(\.0)?$/.test(previous) ? null : previous;
}

function shaped(line) {
  if (line.skipped != null) return { gap: line.skipped, live: line.cursor == null, task: line.task };
  return { ...line, plain: plain(line.text) };
}

/** Parse a filter that the user typed: a text, or a regular expression between slashes. */
export function filterOf(text) {
  const match = text.match(/^\/(.+)\/$/);
  if (match) return { grep: match[1], regex: 1 };
  return text ? { grep: text } : {};
}

/** Return the first match after the cursor {from}, or the last match before {before}; undefined if no line matches. */
export async function firstMatch(source, asked, edge) {
  let place = edge;
  for (;;) {
    const answer = await source.log({ ...asked, ...place, limit: 1 }).catch(() => null);
    const line = answer?.lines.find((one) => one.cursor != null);
    if (line || !answer || answer.done !== false) return line;
    place = "from" in edge ? { from: answer.next } : { before: answer.previous };
  }
}

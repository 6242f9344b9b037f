// The lines of the log that the page holds: so many at most, in order, from a cursor to another.

import { plain } from "./ansi.js";

export const MOST = 20_000; // lines that are held

export class LogLines {
  constructor(most = MOST) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.lines = [];
    this.previous = null; // the cursor of what is before, null: nothing
    this.next = null; // the cursor of what comes after
    this.dropped = 0; // lines dropped at the top so far: what is drawn moves by as many
  }

  /** Take an answer in place of all. `back`: it was asked for what is before a place. */
  set(answer, back) {
    this.clear();
    this.append({ ...answer, done: back || answer.done });
    this.previous = before(answer, back);
  }

  /** Take lines that follow. Returns how many were dropped at the top. */
  append({ lines, skipped, next, done }) {
    this.ended = done !== false;
    if (skipped) this.lines.push({ gap: skipped, live: true });
    for (const line of lines.length > this.most ? lines.slice(-this.most) : lines) this.lines.push(shaped(line));
    if (next !== undefined) this.next = next;
    return this.trimTop();
  }

  /** Take lines that come before. Returns how many were added at the top. */
  prepend(answer) {
    const added = answer.lines.map(shaped);
    this.lines.unshift(...added);
    this.previous = before(answer, true);
    if (this.lines.length > this.most) {
      const cut = this.lines.slice(this.most).find((line) => line.cursor != null);
      this.lines.length = this.most;
      this.next = cut?.cursor ?? this.next; // from there on it is fetched again
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

  /** The index of the first line at or after a moment. */
  indexAt(t) {
    const at = this.lines.findIndex((line) => line.t != null && line.t >= t);
    return at < 0 ? this.lines.length - 1 : at;
  }

  /** The indexes of the lines that have a text, without regard to case. */
  find(text) {
    const wanted = text.toLowerCase();
    const found = [];
    if (wanted) this.lines.forEach((line, i) => line.plain?.toLowerCase().includes(wanted) && found.push(i));
    return found;
  }
}

/** The cursor of what is before an answer; null: there is nothing. */
function before({ previous, done }, back) {
  return (back && done !== false) || !previous || /^0(\.0)?$/.test(previous) ? null : previous;
}

function shaped(line) {
  if (line.skipped != null) return { gap: line.skipped, live: line.cursor == null, task: line.task };
  return { ...line, plain: plain(line.text) };
}

/** What the user typed as a filter: text, or /a regular expression/. */
export function filterOf(text) {
  const match = text.match(/^\/(.+)\/$/);
  if (match) return { grep: match[1], regex: 1 };
  return text ? { grep: text } : {};
}

/** The first line from a place on, or the last one before it, that matches; undefined: there is none. */
export async function firstMatch(source, asked, edge) {
  let place = edge;
  for (;;) {
    const answer = await source.log({ ...asked, ...place, limit: 1 }).catch(() => null);
    const line = answer?.lines.find((one) => one.cursor != null);
    if (line || !answer || answer.done !== false) return line;
    place = "from" in edge ? { from: answer.next } : { before: answer.previous };
  }
}

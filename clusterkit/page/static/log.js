// The section with the logs of the tasks. Only visible lines are elements of the document.

import { fill, h, say } from "./dom.js";
import { byTask, count } from "./format.js";
import { LogLines, filterOf, firstMatch } from "./log_lines.js";
import { rowOf } from "./log_rows.js";
import { LogTools } from "./log_tools.js";

const ROW = 19; // pixels; the height of a line
const PAGE = 1000; // the number of lines that are fetched at once
const ENOUGH = 60; // the number of matching lines that are enough to end a search for now
const SPARE = 12; // the number of rows that are drawn above and below the visible rows
const PENDING = 5000; // the maximum number of lines that wait for the next frame; the oldest of more lines are dropped

export class Log {
  constructor(store, source) {
    Object.assign(this, { store, source });
    this.lines = new LogLines();
    this.asked = {}; // the query: task, attempt, grep, regex
    this.pending = [];
    this.missed = 0; // the number of bytes dropped from `pending`
    this.left = 0; // the number of bytes that were left out since the log has been followed
    this.found = "";
    this.current = -1;
    this.rows = h("div", { class: "rows" });
    this.space = h("div", { class: "space" }, this.rows);
    this.view = h("div", { class: "lines", tabindex: "0", role: "log", "aria-label": "Lines of the log", "aria-live": "off" }, this.space);
    this.empty = h("p", { class: "empty" });
    this.tools = new LogTools(this, source.live);
    const head = h("div", { class: "head" }, h("h2", { id: "h-log" }, "Log"), this.tools.root);
    this.root = h("section", { class: "log", "aria-labelledby": "h-log", tabindex: "-1" }, head, h("div", { class: "frame" }, this.view, this.empty));
    this.view.addEventListener("scroll", () => this.scrolled());
    this.view.addEventListener("wheel", (event) => event.deltaY < 0 && this.follow(false), { passive: true });
    this.view.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.view);
    store.on(["attempt"], () => this.tools.update(this.tasks(), this.asked));
    store.onValue(["task"], () => store.colors(), () => this.tools.update(this.tasks(), this.asked));
    store.on(["run"], () => this.runChanged());
  }

  tasks() {
    return this.store.all("task").sort((a, b) => byTask(a.task, b.task));
  }

  runChanged() {
    const run = this.store.get("run");
    if (!run) return;
    this.tools.live(this.source.live && this.store.isLive());
    if (this.begun) return;
    this.begun = true;
    this.open({ from: "end" }, this.source.live && this.store.isLive());
  }

  /** Show the lines of another query. */
  choose(asked) {
    const t = this.following ? null : this.topTime();
    this.asked = { ...asked };
    this.tools.update(this.tasks(), this.asked);
    return t == null ? this.open({ from: "end" }, this.following) : this.open({ at: t }, false);
  }

  filter(text) {
    const { task, attempt } = this.asked;
    return this.choose({ task, attempt, ...filterOf(text) });
  }

  /** Replace all lines by newly loaded ones. `where` is {from}, {at} or {before}. */
  async open(where, follow) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.moved?.();
    this.unfollow();
    this.left = 0;
    this.tools.skipped(0);
    const back = where.from === "end" || where.before != null;
    let answer;
    try {
      answer = await this.page(where, back);
    } catch (error) {
      if (turn === this.turn) this.fail(error);
      return;
    }
    if (turn !== this.turn) return;
    this.tools.problem("");
    this.failed = "";
    this.lines.set(answer, back);
    this.search(this.found, false);
    this.draw();
    this.follow(follow && this.source.live);
    if (where.from === "end") this.toEnd();
    else if (where.at != null) await this.showTime(where.at, turn);
    this.draw();
  }

  /** Load a page of lines. In long logs, a search takes several requests. */
  async page(where, back) {
    const { turn, asked } = this;
    const ask = (place) => this.source.log({ ...asked, ...place, limit: PAGE });
    let answer = await ask(where);
    while (asked.grep && answer.done === false && answer.lines.length < ENOUGH && turn === this.turn) {
      say(this.empty, "Searching …");
      const more = await ask(back ? { before: answer.previous } : { from: answer.next });
      const lines = back ? [...more.lines, ...answer.lines] : [...answer.lines, ...more.lines];
      answer = back ? { ...answer, lines, previous: more.previous, done: more.done } : { ...answer, lines, next: more.next, done: more.done };
    }
    return answer;
  }

  fail(error) {
    if (error.kind === "wrong" || error instanceof SyntaxError) return this.tools.problem(error.message);
    // Lines of another query must not stand below this one.
    this.lines.clear();
    this.failed = `${error.message} These lines can't be shown.`;
    this.draw();
    return undefined;
  }

  /** Scroll to a moment, so that some lines before it are visible, too. */
  async goTo({ t, task, attempt }) {
    if (task !== undefined) this.asked = { ...this.asked, task, attempt: task ? attempt : undefined };
    this.tools.update(this.tasks(), this.asked);
    if (t == null) return this.open({ from: "end" }, this.following);
    return this.open({ at: Math.max(0, t) }, false);
  }

  async showTime(t, turn) {
    if (this.lines.previous != null) await this.earlier();
    if (turn !== this.turn) return;
    const index = this.lines.indexAt(t);
    this.current = this.lines.lines.length ? index : -1;
    this.view.scrollTop = Math.max(0, (index - 3) * ROW);
  }

  follow(on) {
    if (on === Boolean(this.following)) return;
    this.unfollow();
    if (on) {
      this.following = true;
      const take = (data) => this.take(data);
      this.stop = this.source.followLog(this.asked, this.lines.next ?? "end", take, () => this.follow(false));
      this.toEnd();
    }
    this.tools.following(on);
  }

  unfollow() {
    this.stop?.();
    this.stop = null;
    this.following = false;
    this.tools.following(false);
    this.flush();
  }

  /** Take new lines of a log that is followed, and show them in the next frame. */
  take({ lines, skipped, next }) {
    if (skipped) this.pending.push({ skipped });
    this.pending.push(...lines);
    if (next !== undefined) this.pendingNext = next;
    if (this.pending.length > PENDING) {
      const gone = this.pending.splice(0, this.pending.length - PENDING);
      this.missed += gone.reduce((sum, line) => sum + (line.skipped ?? line.text.length + 1), 0);
    }
    if (!this.drawing) this.draw();
  }

  flush() {
    if (!this.pending.length) return;
    const lines = this.pending;
    this.pending = [];
    this.left += this.missed + lines.reduce((sum, line) => sum + (line.skipped ?? 0), 0);
    this.tools.skipped(this.left);
    this.lines.append({ lines, skipped: this.missed, next: this.pendingNext });
    this.missed = 0;
    if (this.found) this.search(this.found, false);
    if (this.following) this.toEnd();
  }

  toEnd() {
    this.space.style.setProperty("height", `${this.lines.lines.length * ROW}px`);
    this.view.scrollTop = this.view.scrollHeight;
  }

  topTime() {
    const top = Math.floor(this.view.scrollTop / ROW);
    return this.lines.lines.slice(top).find((line) => line.t != null)?.t ?? null;
  }

  scrolled() {
    this.draw();
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    if (scrollTop < 30 * ROW && this.lines.previous != null) this.earlier();
    const grows = !this.lines.ended || this.tools.isLive;
    if (!this.following && grows && scrollHeight - scrollTop - clientHeight < 30 * ROW) this.later();
  }

  async earlier() {
    if (this.loading || this.following) return;
    await this.load({ before: this.lines.previous }, (answer) => {
      const added = this.lines.prepend(answer);
      if (this.current >= 0) this.current += added;
      this.space.style.setProperty("height", `${this.lines.lines.length * ROW}px`);
      this.view.scrollTop += added * ROW;
    });
  }

  async later() {
    if (this.loading) return;
    const before = this.lines.next;
    await this.load({ from: before }, (answer) => {
      const dropped = this.lines.append(answer);
      if (answer.done !== false) this.quiet = performance.now();
      if (dropped) {
        this.current -= dropped;
        this.view.scrollTop -= dropped * ROW;
      }
    });
  }

  async load(where, use) {
    if (where.from != null && performance.now() - (this.quiet ?? -2000) < 2000) return;
    this.loading = true;
    const { turn } = this;
    try {
      const answer = await this.page(where, where.before != null);
      if (turn === this.turn) use(answer);
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    } finally {
      this.loading = false;
    }
    this.search(this.found, false);
    this.draw();
  }

  /** Mark the matches of a text; if `by` is 1 or -1, also move to the next or the previous match. */
  async search(text, by) {
    this.found = text;
    this.matches = this.lines.find(text);
    if (by && text) await this.toMatch(by);
    const at = this.matches.indexOf(this.current);
    const n = this.matches.length;
    this.tools.matches(!text ? "" : n ? `${at >= 0 ? `${count(at + 1)} of ` : ""}${count(n)}` : "none here");
    if (by !== false) this.draw();
  }

  async toMatch(by) {
    this.follow(false);
    const from = this.current >= 0 ? this.current : by > 0 ? -1 : this.lines.lines.length;
    let index = by > 0 ? this.matches.find((i) => i > from) : this.matches.findLast((i) => i < from);
    if (index === undefined) index = await this.matchElsewhere(by);
    if (index === undefined) return;
    this.current = index;
    this.view.scrollTop = Math.max(0, index * ROW - this.view.clientHeight / 2);
  }

  /** Find the next match outside the loaded lines, load the lines around it, and return its index. */
  async matchElsewhere(by) {
    const edge = by > 0 ? { from: this.lines.next } : { before: this.lines.previous };
    if (Object.values(edge)[0] == null || this.asked.grep) return undefined;
    const { task, attempt } = this.asked;
    const line = await firstMatch(this.source, { task, attempt, grep: this.found }, edge);
    if (!line) return undefined;
    await this.open({ from: line.cursor }, false);
    if (this.lines.previous != null) await this.earlier();
    this.matches = this.lines.find(this.found);
    return this.lines.lines.findIndex((one) => one.cursor === line.cursor);
  }

  key(event) {
    if (event.key === "End") this.source.live && this.tools.isLive ? this.open({ from: "end" }, true) : this.open({ from: "end" }, false);
    else if (event.key === "Home") this.open({ from: "0" }, false);
    else {
      if (event.key === "PageUp" || event.key === "ArrowUp") this.follow(false);
      return;
    }
    event.preventDefault();
  }

  /** Draw the visible lines before the next frame. */
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.flush();
      this.drawNow();
    });
  }

  drawNow() {
    const { lines } = this.lines;
    const none = !lines.length;
    this.empty.hidden = !none;
    if (none) say(this.empty, this.failed ? this.failed : this.asked.grep ? "No line matches the filter." : this.store.isLive() ? "The tasks have written nothing yet." : "The tasks wrote nothing.");
    this.space.style.setProperty("height", `${lines.length * ROW}px`);
    const first = Math.max(0, Math.floor(this.view.scrollTop / ROW) - SPARE);
    const last = Math.min(lines.length, Math.ceil((this.view.scrollTop + this.view.clientHeight) / ROW) + SPARE);
    this.rows.style.setProperty("transform", `translateY(${first * ROW}px)`);
    const colors = new Map(this.tasks().map((row) => [row.task, row.color]));
    const width = Math.max(8, ...[...colors.keys()].map((name) => name.length));
    this.rows.style.setProperty("--names", `${width}ch`);
    const shown = lines.slice(first, last).map((line, i) => rowOf(line, first + i === this.current, colors, this.found, this.wall));
    fill(this.rows, shown);
  }
}

// The controls above the log: choosing tasks and lines, searching, and following.

import { fill, h, hueOf, keyed, mark, save, say, toggle } from "./dom.js";
import { bytes } from "./format.js";
import { textOf } from "./log_rows.js";

const MOST_CHIPS = 8; // the maximum number of tasks with a button each; more tasks are in a drop-down list
const PAUSE = 300; // milliseconds; how long to wait after the last keystroke
/** Return a filter for a severity, by the prefixes of TensorFlow, absl and logging, and by names of exceptions. */
const least = (letters, words, ends) => `/^(\\S+ \\S+: )?[${letters}](\\d{4} | ).*\\]|\\b(${words})\\b|\\b\\w*(${ends})\\b/`;
const LEVELS = {
  "": "all lines",
  [least("WEF", "WARNING|ERROR|CRITICAL|FATAL", "Warning|Error|Exception")]: "warnings",
  [least("EF", "ERROR|CRITICAL|FATAL", "Error|Exception")]: "errors",
};

export class LogTools {
  constructor(log, live) {
    this.log = log;
    this.isLive = false;
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Tasks whose lines are shown" });
    this.select = h("select", { "aria-label": "Task whose lines are shown", hidden: true, onchange: () => this.pick(this.select.value) });
    this.attempt = h("select", { "aria-label": "Attempt whose lines are shown", disabled: true, onchange: () => this.pickAttempt() });
    this.filter = this.field("Filter: text or /regex/", "Filter the lines: text or /regex/", (text) => log.filter(text));
    const levels = Object.entries(LEVELS).map(([value, name]) => h("option", { value }, name));
    this.level = h("select", { "aria-label": "Least severity of the lines that are shown", onchange: () => this.pickLevel() }, levels);
    this.find = this.field("Search", "Search the lines", (text) => {
      if (text === log.found) return;
      log.current = -1;
      log.search(text, 0);
    });
    this.find.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      log.search(this.find.value, event.shiftKey ? -1 : 1);
    });
    this.flood = h("output", { class: "skipped" });
    this.count = h("output", { class: "matches" });
    this.error = h("span", { class: "error", role: "alert" });
    const step = (by, sign, label) => h("button", { class: "small", type: "button", "aria-label": label, onclick: () => log.search(this.find.value, by) }, sign);
    this.follow = h("button", { class: "chip", type: "button", "aria-pressed": "false", hidden: !live, onclick: () => this.toggle() }, "follow");
    this.whole = h("button", { class: "chip", type: "button", hidden: true, onclick: () => this.download() }, "whole log");
    this.root = h(
      "div",
      { class: "tools" },
      this.chips,
      this.select,
      this.attempt,
      this.level,
      h("div", { class: "fields" }, this.filter, this.error, this.find, this.count, h("span", { class: "steps" }, step(-1, "↑", "Previous match"), step(1, "↓", "Next match"))),
      this.flood,
      h("div", { class: "ends" }, toggle("wall clock", (on) => this.clock(on)), this.whole, h("button", { class: "chip", type: "button", title: "Save the lines that are loaded", onclick: () => this.save() }, "save"), this.follow),
    );
  }

  field(placeholder, label, use) {
    let timer;
    const input = h("input", { type: "search", placeholder, "aria-label": label, autocomplete: "off", spellcheck: "false" });
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => use(input.value), PAUSE);
    });
    return input;
  }

  update(tasks, asked) {
    const many = tasks.length > MOST_CHIPS;
    this.select.hidden = !many;
    this.chips.hidden = many;
    const names = [null, ...tasks];
    const chosen = asked.task ?? "";
    if (many) {
      keyed(this.select, names, (row) => row?.task ?? "", (row) => h("option", { value: row?.task ?? "" }, row?.task ?? "all tasks"));
      this.select.value = chosen;
    } else {
      keyed(this.chips, names, (row) => row?.task ?? "", (row) => this.chip(row), (chip, row) => mark(chip, "aria-pressed", String((row?.task ?? "") === chosen)));
    }
    this.showAttempts(asked);
    const level = asked.regex ? `/${asked.grep}/` : "";
    this.level.value = level in LEVELS ? level : "";
  }

  chip(row) {
    const pick = () => this.pick(row?.task ?? "");
    return h("button", { class: row ? `chip ${hueOf(row.color)}` : "chip", type: "button", onclick: pick }, row?.task ?? "all");
  }

  showAttempts(asked) {
    const numbers = this.log.store.all("attempt").filter((a) => a.task === asked.task).map((a) => a.attempt).sort((a, b) => a - b);
    const key = `${asked.task} ${numbers}`;
    if (key !== this.attempts) {
      this.attempts = key;
      fill(this.attempt, h("option", { value: "" }, "all attempts"), numbers.map((n) => h("option", { value: n }, `attempt ${n}`)));
    }
    mark(this.attempt, "disabled", numbers.length < 2);
    this.newest = asked.attempt ?? numbers.at(-1);
    this.whole.hidden = !this.log.source.addressOf || !asked.task || this.newest == null;
    mark(this.whole, "title", `Download all that ${asked.task} wrote in attempt ${this.newest}`);
    this.attempt.value = asked.attempt ?? "";
  }

  pick(task) {
    const { grep, regex } = this.log.asked;
    this.log.choose({ task: task || undefined, grep, regex });
  }

  pickAttempt() {
    this.log.choose({ ...this.log.asked, attempt: this.attempt.value || undefined });
  }

  /** Show the times of lines in local time, or in seconds since the run began. */
  clock(on) {
    this.log.wall = on ? this.log.store.get("run")?.wall : null;
    this.log.draw();
  }

  async download() {
    const name = `${this.log.asked.task}.attempt-${this.newest}.log`;
    try {
      h("a", { href: await this.log.source.addressOf(`log/${name}`), download: name }).click();
    } catch (error) {
      this.problem(error.message);
    }
  }

  save() {
    const { lines, store, wall } = this.log;
    save(`${store.get("run").id}.log`, lines.lines.map((line) => textOf(line, wall)).join(""));
  }

  pickLevel() {
    this.filter.value = this.level.value;
    this.log.filter(this.level.value);
  }

  toggle() {
    if (this.log.following) this.log.follow(false);
    else this.log.open({ from: "end" }, true);
  }

  following(on) {
    mark(this.follow, "aria-pressed", String(Boolean(on)));
    say(this.follow, on ? "following" : "follow");
  }

  /** Set whether the run is live. When the run ends, a followed log is still followed to its end. */
  live(is) {
    this.isLive = is;
    this.follow.hidden = !is;
  }

  matches(text) {
    say(this.count, text);
  }

  /** Show how many bytes were left out while the log was followed. */
  skipped(n) {
    say(this.flood, n ? `${bytes(n)} skipped` : "");
  }

  problem(text) {
    say(this.error, text);
    mark(this.filter, "aria-invalid", text ? "true" : null);
  }
}


// The story of a moment: what failed, what failed as a consequence, and how the run recovered.

import { fill, h, say, taskName } from "./dom.js";
import { after, clock, count, plural, seconds } from "./format.js";
import { lazily } from "./store.js";

const BEFORE = 1; // seconds; moments up to this long before or after a story still belong to it
const AROUND = 30; // seconds; for a moment without a story, marks within this time of it are shown

/** Say of a run that is not over that nothing has failed, as far as is known. */
function soFar(store) {
  return store.connection.known ? "Nothing has failed so far" : "Nothing had failed when the connection was lost";
}

/** Return the story that a moment belongs to, or undefined. */
export function storyAt(stories, t) {
  const within = stories.filter((s) => t >= s.at - BEFORE && t <= lastOf(s) + BEFORE);
  return within.sort((a, b) => Math.abs(a.at - t) - Math.abs(b.at - t))[0];
}

function lastOf(story) {
  const lines = story.lines.map((line) => line.at);
  return Math.max(story.at + (story.seconds ?? 0), ...lines);
}

export class Story {
  /** `openLog({t, task, attempt})` scrolls the log to a moment. */
  constructor(store, timeline, openLog) {
    Object.assign(this, { store, timeline, openLog });
    this.chosen = null;
    this.title = h("h2", { id: "h-story" });
    this.log = h("button", { class: "small", type: "button", hidden: true, onclick: () => this.toLog() }, "Show in the log");
    this.back = h("button", { class: "small", type: "button", hidden: true, onclick: () => this.showLatest() }, "Latest");
    this.list = h("ol", { class: "story" });
    this.numbers = h("p", { class: "numbers" });
    this.root = h(
      "section",
      { class: "moment", "aria-labelledby": "h-story", tabindex: "-1" },
      h("div", { class: "head" }, this.title, h("div", { class: "tools" }, this.log, this.back)),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": "h-story" }, this.list, this.numbers),
    );
    store.on(["story", "run", "task", "mark"], () => this.update());
  }

  /** Show the story of a moment, {t, task, attempt, text, lines}; if it is null, the latest story. */
  choose(moment) {
    this.chosen = moment;
    this.update();
  }

  showLatest() {
    this.timeline.choose(null);
    this.choose(null);
  }

  toLog() {
    const { t, task, attempt } = this.target;
    this.openLog({ t, task, attempt });
  }

  update() {
    const stories = this.store.all("story").sort((a, b) => a.at - b.at);
    this.back.hidden = !this.chosen;
    const stall = this.chosen ? null : this.stall();
    const story = this.chosen ? storyAt(stories, this.chosen.t) : stories.at(-1);
    const key = JSON.stringify([story, stall, this.chosen, story ? null : this.waits(), this.store.connection.known]);
    if (key === this.shown) return;
    this.shown = key;
    this.log.hidden = !story && !stall && !this.chosen;
    if (stall) this.tellStall(stall);
    else if (story) this.tell(story);
    else if (this.chosen) this.tellMoment(this.chosen);
    else this.tellNothing();
  }

  /** Return the warning of the current stall, or null. */
  stall() {
    const lasts = this.store.get("run")?.now === "stalled";
    return (lasts && this.store.all("stall").sort((a, b) => a.at - b.at).at(-1)) || null;
  }

  tellStall(stall) {
    say(this.title, `${clock(stall.since)} · ${this.store.connection.known ? "Stalled since then" : "Stalled when the connection was lost"}`);
    this.target = { t: stall.at };
    const verdicts = stall.tasks.map(([task, verdict]) => lineOf({ text: `${task} ${verdict}`, kind: "" }, ""));
    const noticed = lineOf({ text: verdicts.length ? "The stall was noticed" : stall.text, kind: "warning" }, after(stall.at - stall.since));
    fill(this.list, lineOf({ text: "The last step was reported", kind: "step" }, clock(stall.since)), noticed, verdicts);
    say(this.numbers, stall.report ? "The stacks of all tasks are below, under Stalls." : "");
  }

  tell(story) {
    const recovered = story.kind === "recovery" && story.seconds != null;
    say(this.title, `${clock(story.at)} · ${recovered ? "Recovered: " : ""}${story.title}`);
    this.target = { t: this.chosen?.t ?? story.at, task: story.log?.[0], attempt: story.log?.[1] };
    const lines = story.lines.filter((line, at) => at > 0 || story.lines.length === 1 || line.text !== story.title);
    fill(this.list, lines.map((line) => lineOf(line, line.at === story.at ? clock(line.at) : after(line.at - story.at))));
    const said = [];
    if (story.seconds != null && story.kind !== "failure") said.push(`${story.went_on ? "all tasks up again" : "first new step"} after ${seconds(story.seconds)}`);
    if (story.lost) said.push(`${plural(story.lost, "step")} lost`);
    if (story.checkpoint) said.push(`from ${nameOf(story.checkpoint)}`);
    say(this.numbers, said.join(" · "));
  }

  /** Show what is known of a moment that has no story. */
  tellMoment(moment) {
    say(this.title, [clock(moment.t), moment.task].filter(Boolean).join(" · "));
    this.target = moment;
    const near = this.store
      .all("mark")
      .filter((one) => Math.abs(one.at - moment.t) < AROUND && (!moment.task || !one.task || one.task === moment.task))
      .sort((a, b) => Math.abs(a.at - moment.t) - Math.abs(b.at - moment.t))
      .slice(0, 6)
      .sort((a, b) => a.at - b.at);
    const lines = (moment.lines?.slice(1) ?? [moment.text]).map((text) => h("li", null, h("time"), h("span", null, text)));
    fill(this.list, lines, near.map((one) => lineOf({ ...one, kind: kindOf(one.kind) }, clock(one.at))));
    say(this.numbers, near.length ? "" : "Nothing else happened around then.");
  }

  /** Return what each task is waiting for while the run starts. */
  waits() {
    const run = this.store.get("run");
    if (!run || run.phase === "over") return [run?.state];
    return this.store.all("task").filter((t) => t.note || !t.ready).map((t) => [t.task, t.color, t.note || t.state, run.phase]);
  }

  tellNothing() {
    const run = this.store.get("run");
    const starting = run?.phase === "starting" && this.store.isLive();
    say(this.title, starting ? "Starting" : run?.phase === "over" ? (run.state === "lost" ? "No task failed" : "Nothing failed") : soFar(this.store));
    this.target = null;
    const waits = starting ? this.waits() : [];
    fill(
      this.list,
      waits.map(([task, color, text]) => h("li", { class: "wait" }, taskName(task, color), h("span", null, text))),
    );
    say(this.numbers, starting ? run.text : "Choose a moment in the lanes to see what happened then.");
  }
}

function kindOf(mark) {
  return { fault: "fault", restart: "restart", stall: "warning", warning: "warning", heal: "back" }[mark] ?? "";
}

function lineOf(line, time) {
  const at = h("time", null, line.kind === "why" ? "" : time);
  return h("li", { class: line.kind || null }, at, h("span", null, line.text));
}

/** The table of incidents: a row for each story, the costliest first. */
export class Recoveries {
  constructor(store, choose) {
    this.store = store;
    this.choose = choose;
    this.body = h("tbody");
    this.empty = h("p", { class: "empty" });
    const heads = ["at", "what", "detected", "restart planned", "up", "first new step", "steps lost", "from"];
    this.table = h("table", null, h("thead", null, h("tr", null, heads.map((name) => h("th", { scope: "col", class: name === "what" ? "words" : null }, name)))), this.body);
    this.root = h(
      "section",
      { class: "recoveries", "aria-labelledby": "h-recoveries" },
      h("div", { class: "head" }, h("h2", { id: "h-recoveries" }, "Incidents, the longest first")),
      h("div", { class: "wide-table", tabindex: "0", role: "group", "aria-labelledby": "h-recoveries" }, this.table, this.empty),
    );
    const update = lazily(() => this.update());
    store.on(["story"], update);
    store.onValue(["run"], () => store.isLive(), update);
  }

  update() {
    const cost = (story) => story.seconds ?? (story.kind === "fault" ? 0 : Infinity); // a failure without a new step counts as the longest
    const stories = this.store.all("story").sort((a, b) => cost(b) - cost(a) || a.at - b.at);
    const key = JSON.stringify(stories);
    this.table.hidden = !stories.length;
    this.empty.hidden = stories.length > 0;
    const { phase, state } = this.store.get("run") ?? {};
    const none = state === "lost" ? "No task failed" : "Nothing failed";
    say(this.empty, phase === "over" ? `${none}, and nothing was broken on purpose.` : soFar(this.store));
    if (key === this.shown) return;
    this.shown = key;
    fill(this.body, stories.map((story) => this.row(story)));
  }

  row(story) {
    const choose = () => this.choose({ t: story.at, task: story.log?.[0], attempt: story.log?.[1], text: story.title });
    const title = h("button", { class: "link", type: "button", onclick: choose }, story.title);
    const times = [story.detected, story.planned, story.up, story.first_step];
    const cells = times.map((t) => h("td", null, t == null ? "–" : after(Math.max(0, t - story.at))));
    return h(
      "tr",
      null,
      h("td", null, clock(story.at)),
      h("td", { class: "words" }, title),
      cells,
      h("td", null, count(story.lost)),
      h("td", { class: "mono", title: story.checkpoint }, nameOf(story.checkpoint) ?? "–"),
    );
  }
}

/** Return the name of a checkpoint without its directory. */
function nameOf(path) {
  return path?.slice(path.lastIndexOf("/") + 1);
}

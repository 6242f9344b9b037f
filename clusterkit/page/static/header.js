// The top of a run's page: what the run is, its progress, and how it spent its time.

import { copyButton, fill, h, keyed, mark, say, tell } from "./dom.js";
import { count, moment, plural, seconds, share, speed, wallTime } from "./format.js";
import { lazily } from "./store.js";

const FACTS = [
  ["step", "step"],
  ["speed", "steps/s, 30 s mean"],
  ["goodput", "goodput"],
  ["restarts", "restarts"],
  ["time", "so far"],
];
/** Maps words in the names of the parts of a run's time to colors of the palette. The lanes use the same colors. */
const PARTS = [
  [/lost/, "bar-lost"],
  [/count|train/, "bar-ok"],
  [/start/, "bar-start"],
  [/compil/, "bar-compile"],
  [/checkpoint|sav/, "bar-save"],
  [/recover/, "bar-bad"],
  [/stall/, "bar-wait"],
  [/stop|pause/, "bar-wait"],
  [/evaluat/, "bar-evaluate"],
  [/end|seen/, "soft"],
];

/** Maps words in the names of parts that the lanes draw with a pattern or an outline to CSS classes that look the same. */
const DRAWN = [[/start/, "k-start"], [/lost/, "k-lost"], [/stall/, "k-stalled"]]; // prettier-ignore
const LETTER = 7.2; // pixels; the maximum width of a letter below the bar

function swatchOf({ name }) {
  const [color, drawn] = [PARTS, DRAWN].map((known) => known.find(([words]) => words.test(name))?.[1]);
  return h("i", drawn ? { class: drawn } : { style: { background: `var(--${color ?? "faint"})` } });
}

/** Return the tone, such as ok or bad, for a run's state or for what a live run is doing. */
export function toneOf(state) {
  if (/^(succeeded|passed|success)/.test(state)) return "ok";
  if (/^(failed|lost|crashed|stalled)/.test(state)) return "bad";
  if (/^(training|running|live)/.test(state)) return "run";
  return /^(starting|over|)$/.test(state) ? "quiet" : "wait";
}

const UNKNOWN = "not known";
const GOODPUT = "Goodput is the share of the run's time that went into training steps whose results were kept.";

export class Header {
  constructor(store, source) {
    Object.assign(this, { store, source });
    this.pill = h("span", { class: "pill" });
    this.program = h("span");
    this.about = h("small");
    this.values = {};
    this.names = {};
    const facts = FACTS.map(([key, name]) => {
      this.values[key] = h("b", null, "–");
      this.names[key] = h("span", null, name);
      return h("div", { class: `fact ${key}` }, this.values[key], this.names[key]);
    });
    this.values.goodput.parentElement.title = GOODPUT;
    this.text = h("p", { class: "text" });
    this.heading = h("dt");
    this.why = h("span");
    this.error = h("pre", { class: "error", tabindex: "0", "aria-label": "The error of the task that failed" });
    this.reason = h("dd", null, this.why, this.error);
    this.todo = h("span");
    this.commands = h("span", { class: "commands" });
    this.judged = h("dd");
    this.judgedBy = h("dt", null, "Campaign");
    this.brief = h("dl", { class: "brief" }, this.judgedBy, this.judged, this.heading, this.reason, h("dt", null, "What to do"), h("dd", null, this.todo, this.commands));
    this.spoken = h("div", { class: "unseen", role: "alert" });
    this.links = h("div", { class: "links" });
    this.bar = h("div", { class: "parts" });
    this.most = h("p");
    this.legend = h("ul");
    this.goodput = h(
      "div",
      { class: "spent", tabindex: "0", role: "img" },
      this.bar,
      h("div", { class: "legend" }, h("p", null, GOODPUT), this.most, this.legend),
    );
    const back = source.home && h("a", { href: source.home.href, class: "home" }, source.home.text);
    this.root = h(
      "header",
      { class: "run" },
      h("div", { class: "title" }, this.pill, h("h1", null, this.program, this.about), h("div", { class: "facts" }, facts)),
      h("div", { class: "line" }, this.text, this.links, back),
      this.brief,
      this.goodput,
      this.spoken,
    );
    this.showLinks = lazily(() => this.showLinksNow());
    store.on(["run", "goodput"], () => this.update());
    store.on(["verdict"], () => this.judge());
    setInterval(() => this.tick(), 500);
    new ResizeObserver(() => this.fitNames()).observe(this.bar);
  }

  update() {
    const run = this.store.get("run");
    if (!run) return;
    const known = this.store.isOver() || this.store.connection.known;
    const word = known ? run.now || run.state || run.phase : UNKNOWN;
    const news = !known || run.phase === "over" || /^(stalled|recovering)$/.test(word);
    if (!news) say(this.spoken, ""); // an alert about what is past would be false
    if (news && this.pill.textContent && this.pill.textContent !== word) this.tell(word, run);
    say(this.pill, word);
    this.pill.className = `pill ${known ? toneOf(word) : "quiet"}`;
    say(this.program, run.program);
    say(this.about, [run.id, run.shape, run.strategy].filter(Boolean).join(" · "));
    mark(this.about, "title", `${run.command}\n${run.directory}\nbegan ${moment(run.wall)}`);
    document.title = `${word} · ${run.program} · clusterkit`;
    const of = run.total == null ? "" : ` / ${count(run.total)}`;
    say(this.values.step, run.step == null ? "–" : `${count(run.step)}${of}`);
    say(this.values.speed, speed(run.speed));
    this.values.speed.parentElement.hidden = !this.store.isLive();
    for (const name of ["step", "goodput"]) this.values[name].parentElement.hidden = run.phase === "over" && run.step == null;
    say(this.values.restarts, count(run.restarts));
    say(this.names.restarts, run.restarts === 1 ? "restart" : "restarts");
    const halts = run.phase !== "over" && !/^(training|starting)$/.test(word) && run.step != null;
    const saved = run.saved == null ? "none is saved" : `${count(run.saved)} is saved`;
    say(this.names.step, halts ? `last step; ${saved}` : "step");
    say(this.names.goodput, halts && run.unsaved ? `goodput; ${plural(run.unsaved, "step")} not saved` : "goodput");
    say(this.names.time, run.phase === "over" ? "in total" : known ? "so far" : "until then");
    const asOf = this.source.made && run.phase !== "over" ? `As of ${moment(this.source.made)}: ` : "";
    say(this.text, known ? asOf + run.text : `At ${wallTime(this.store.connection.since)} it was ${run.now || run.phase}: ${run.text}`);
    say(this.heading, run.heading);
    const error = run.error.join("\n");
    tell(this.why, error && run.is_error ? "" : run.why);
    say(this.error, error);
    this.error.hidden = !error;
    this.heading.hidden = this.reason.hidden = !known || (!run.why && !error);
    tell(this.todo, known ? run.todo : "Ask the run itself what it does now.");
    this.brief.hidden = known && !run.todo;
    keyed(this.commands, known ? run.commands : [`clusterkit ps ${run.id}`], (one) => one, (one) => h("span", null, h("code", { title: one }, one), copyButton(() => one, "Copy")));
    this.showLinks();
    this.showGoodput();
    this.tick();
  }

  /** Show the verdict of the campaign or the exam that the run is part of, if any. */
  judge() {
    const verdict = this.store.get("verdict");
    this.judgedBy.hidden = this.judged.hidden = !verdict;
    if (!verdict) return;
    const { kind, campaign, violations, replay, text } = verdict;
    say(this.judgedBy, kind === "exam" ? "Exam" : "Campaign");
    const name = this.source.live && kind !== "exam" ? h("a", { href: `/campaign/${encodeURIComponent(campaign)}` }, campaign) : campaign;
    const again = violations.length > 0 && h("span", { class: "commands" }, h("span", null, h("code", { title: replay }, replay), copyButton(() => replay, "Copy the replay")));
    const said = violations.length ? ` failed this run: ${violations.join(" ")} ` : " passed this run.";
    fill(this.judged, name, text ? `: ${text} ` : said, again);
  }

  /** Announce a change to screen readers and, if the user allowed it, as a notification when the page has no focus. */
  tell(word, run) {
    say(this.spoken, `${word}: ${run.text} ${run.why}`);
    if (document.hasFocus() || !this.source.live || globalThis.Notification?.permission !== "granted") return;
    new Notification(`${word}: ${run.program}`, { body: run.text, tag: run.id }).onclick = () => focus();
  }

  tick() {
    if (this.store.get("run")) say(this.values.time, seconds(this.store.now()));
  }

  /** Show the links. Called after the first frame, since reading the permission to notify takes up to 60 ms. */
  showLinksNow() {
    const run = this.store.get("run");
    if (!run) return;
    const asks = this.source.live && this.store.isLive() && globalThis.Notification?.permission === "default";
    const key = `${run.tensorboard} ${run.exit_code} ${asks}`;
    if (key === this.linked) return;
    this.linked = key;
    fill(
      this.links,
      run.exit_code != null && h("span", null, `exit code ${run.exit_code}`),
      asks && h("button", { class: "small", type: "button", onclick: () => Notification.requestPermission().then(() => this.update()) }, "Notify me"),
      run.tensorboard && this.source.live && h("a", { href: run.tensorboard, target: "_blank", rel: "noreferrer" }, "TensorBoard"),
    );
  }

  showGoodput() {
    const spent = this.store.get("goodput");
    if (!spent) {
      mark(this.goodput, "aria-label", "Goodput is not known yet.");
      say(this.most, "Goodput is known once training has begun.");
      return;
    }
    say(this.values.goodput, share(spent.goodput));
    const parts = spent.parts.filter((part) => part.seconds > 0).sort((a, b) => b.seconds - a.seconds);
    const set = (child, part) => {
      child.style.setProperty("flex-grow", String(part.seconds));
      say(child.lastChild, `${part.name} ${share(part.seconds / spent.seconds)}`);
    };
    keyed(this.bar, parts, (p) => p.name, (p) => h("div", null, swatchOf(p), h("span")), set);
    this.fitNames();
    say(this.most, spent.most);
    keyed(this.legend, parts, (p) => p.name, makeEntry, (entry, part) => {
      say(entry.children[1], part.name);
      say(entry.children[2], seconds(part.seconds));
      say(entry.children[3], share(spent.seconds ? part.seconds / spent.seconds : null));
    });
    const spoken = parts.map((part) => `${part.name} ${seconds(part.seconds)}`).join(", ");
    mark(this.goodput, "aria-label", `Goodput ${share(spent.goodput)}. ${spoken}. ${spent.most}`);
  }

  /** Show the names of those parts of the bar that have enough room for their names. */
  fitNames() {
    const wide = [...this.bar.children].map((part) => part.clientWidth);
    [...this.bar.children].forEach((part, index) => (part.lastChild.hidden = part.lastChild.textContent.length * LETTER > wide[index]));
  }
}

function makeEntry(part) {
  return h("li", null, swatchOf(part), h("span"), h("b"), h("em"));
}

// The page of a campaign: runs by action and outcome, durations of recoveries, and commands that repeat failed runs.

import { copyButton, fill, h, mark, say, section } from "./dom.js";
import { count, moment, seconds } from "./format.js";
import { toneOf } from "./header.js";
import { MOST_COMPARED } from "./source.js";
import { strip } from "./strip.js";

const OUTCOMES = ["passed", "failed", "interrupted", "running"];
const ALWAYS = ["passed", "failed"]; // outcomes that always have a column, even if no run has them

export class CampaignPage {
  constructor(store, source) {
    Object.assign(this, { store, source });
    this.pill = h("span", { class: "pill" });
    this.title = h("span");
    this.about = h("small");
    this.facts = h("div", { class: "facts" });
    this.text = h("p", { class: "text" });
    this.grid = section("Runs by action and outcome", "grid", h("span", { class: "note" }, "a square is a run; one with several faults is in each of their rows"));
    this.table = h("div", { class: "wide-table", tabindex: "0", role: "group", "aria-label": "Runs by action and outcome" });
    this.grid.root.append(this.table);
    this.failures = section("Failures", "failures");
    this.failed = h("div");
    this.failures.root.append(this.failed);
    this.compare = h("span");
    this.all = section("All runs", "all-runs", this.compare);
    this.rows = h("div", { class: "wide-table", tabindex: "0", role: "group", "aria-label": "All runs of the campaign" });
    this.all.root.append(this.rows);
    const back = source.home && h("a", { href: source.home.href, class: "home" }, source.home.text);
    const head = h("header", { class: "run" }, h("div", { class: "title" }, this.pill, h("h1", null, this.title, this.about), this.facts), h("div", { class: "line" }, this.text, back));
    this.command = h("code");
    const command = h("p", { class: "command page-command" }, this.command, copyButton(() => this.command.textContent));
    this.root = h("div", { class: "page" }, head, command, h("main", { class: "stack" }, this.grid.root, this.failures.root, this.all.root));
    store.on(["campaign", "of"], () => this.update());
  }

  update() {
    const campaign = this.store.get("campaign");
    if (!campaign) return;
    const runs = this.store.all("of").sort((a, b) => a.number - b.number);
    this.header(campaign, runs);
    const key = JSON.stringify([runs, campaign.tallies]);
    if (key === this.shown) return;
    this.shown = key;
    this.showGrid(runs);
    this.showFailures(["failed", "interrupted"].flatMap((outcome) => runs.filter((run) => run.outcome === outcome)));
    this.showAll(runs);
  }

  header(campaign, runs) {
    say(this.pill, campaign.state);
    this.pill.className = `pill ${toneOf(campaign.state)}`;
    say(this.title, campaign.program);
    say(this.about, ["campaign", campaign.id, campaign.shape, campaign.seed == null ? "" : `seed ${campaign.seed}`].filter(Boolean).join(" · "));
    mark(this.about, "title", `began ${moment(campaign.wall)}`);
    document.title = `${campaign.state} · campaign ${campaign.id} · clusterkit`;
    say(this.text, campaign.text);
    say(this.command, campaign.command);
    const done = runs.filter((run) => ALWAYS.includes(run.outcome));
    const recoveries = runs.flatMap((run) => run.recoveries).sort((a, b) => a - b);
    const median = recoveries.length ? recoveries[Math.floor((recoveries.length - 1) / 2)] : null;
    const facts = [
      [campaign.asked ? `${count(done.length)} / ${count(campaign.asked)}` : count(done.length), "runs"],
      [count(runs.filter((run) => run.outcome === "failed").length), "failed"],
      [count(recoveries.length), "recoveries"],
      [seconds(median), "median recovery"],
    ];
    fill(this.facts, facts.map(([value, name]) => h("div", { class: "fact" }, h("b", null, value), h("span", null, name))));
  }

  showGrid(runs) {
    const actions = [...new Set(runs.flatMap((run) => run.actions))].sort();
    const outcomes = OUTCOMES.filter((o) => ALWAYS.includes(o) || runs.some((run) => run.outcome === o));
    const longest = Math.max(1, ...actions.flatMap((action) => this.timesOf(action)));
    const head = ["action", ...outcomes, "recovered in", "shortest · median · longest", "steps lost"].map((name) => h("th", { scope: "col" }, name));
    const rows = actions.map((action) => this.gridRow(action, runs.filter((run) => run.actions.includes(action)), outcomes, longest));
    fill(this.table, runs.length ? h("table", { class: "grid" }, h("thead", null, h("tr", null, head)), h("tbody", null, rows)) : h("p", { class: "empty" }, "No run has ended yet."));
  }

  gridRow(action, runs, outcomes, longest) {
    const cells = outcomes.map((outcome) => {
      const these = runs.filter((run) => run.outcome === outcome);
      return h("td", null, h("div", { class: "squares" }, h("b", null, count(these.length)), these.map((run) => this.square(run))));
    });
    const times = this.timesOf(action);
    // A run does not record which fault cost which steps, so count only runs in which this is the only action.
    const lost = runs.filter((run) => run.actions.length === 1).flatMap((run) => run.lost);
    const words = times.length ? [times[0], times[Math.floor((times.length - 1) / 2)], times.at(-1)].map(seconds).join(" · ") : "–";
    return h(
      "tr",
      null,
      h("th", { scope: "row", class: "mono" }, action),
      cells,
      h("td", { class: "strip" }, strip(times, longest, `Recoveries after ${action}: ${words}`)),
      h("td", null, words),
      h("td", null, lost.length ? count(lost.reduce((a, b) => a + b, 0)) : "–"),
    );
  }

  /** Return the durations of the recoveries after an action, in ascending order. */
  timesOf(action) {
    const tally = this.store.get("campaign").tallies.find((one) => one.action === action && !one.type);
    return [...(tally?.seconds ?? [])].sort((a, b) => a - b);
  }

  square(run) {
    const label = `run ${run.number}, ${run.outcome}: ${run.faults.join("; ")}`;
    const attributes = { class: `square ${run.outcome}`, title: label, "aria-label": label };
    return h("a", { ...attributes, href: this.hrefOf(run) ?? `#of-${run.number}` });
  }

  /** Return the address of a run's page; null if the run's directory was not kept. */
  hrefOf(run) {
    return run.run ? this.source.hrefOf(run.run) : null;
  }

  showFailures(runs) {
    const parts = runs.map((run) =>
      h(
        "article",
        { class: "failure" },
        h("h3", null, `Run ${run.number}`, h("small", null, ` seed ${run.seed} · ${seconds(run.seconds)}`), this.hrefOf(run) && h("a", { href: this.hrefOf(run) }, "open")),
        run.outcome === "interrupted" ? h("p", null, "The run was interrupted when the campaign ended.") : h("ul", null, run.violations.map((text) => h("li", null, text))),
        h("p", { class: "faults" }, run.faults.map((fault) => h("code", null, fault))),
        h("p", { class: "command" }, h("code", null, run.replay), copyButton(() => run.replay, "Copy the replay")),
      ),
    );
    const done = this.store.get("campaign")?.state !== "running";
    fill(this.failed, parts.length ? parts : h("p", { class: "empty" }, done ? "No run failed." : "No run has failed so far."));
  }

  showAll(runs) {
    const heads = ["run", "outcome", "faults", "took", "recoveries", "steps lost", "seed"].map((name) => h("th", { scope: "col" }, name));
    const rows = runs.map((run) =>
      h(
        "tr",
        { id: `of-${run.number}` },
        h("th", { scope: "row" }, this.hrefOf(run) ? h("a", { href: this.hrefOf(run) }, run.number) : String(run.number)),
        h("td", null, h("span", { class: `pill ${toneOf(run.outcome)}` }, run.outcome)),
        h("td", { class: "words mono" }, run.faults.join("; ")),
        h("td", null, seconds(run.seconds)),
        h("td", null, run.recoveries.map(seconds).join(", ") || "–"),
        h("td", null, run.lost.length ? count(run.lost.reduce((a, b) => a + b, 0)) : "–"),
        h("td", null, String(run.seed)),
      ),
    );
    const kept = this.source.live ? runs.filter((run) => this.hrefOf(run)).slice(0, MOST_COMPARED) : [];
    const href = `/compare/${kept.map((run) => run.run).join(",")}`;
    fill(this.compare, kept.length > 1 && h("a", { href }, `Compare the first ${kept.length} that were kept`));
    fill(this.rows, h("table", { class: "list" }, h("thead", null, h("tr", null, heads)), h("tbody", null, rows)));
  }
}


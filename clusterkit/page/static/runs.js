// The list of all runs, and of the campaigns.

import { h, keyed, mark, say } from "./dom.js";
import { count, moment, seconds } from "./format.js";
import { toneOf } from "./header.js";

export class RunsPage {
  constructor(store) {
    this.store = store;
    document.title = "Runs · clusterkit";
    this.filter = h("input", { type: "search", placeholder: "Filter: program, id or state", "aria-label": "Filter the runs", oninput: () => this.update() });
    this.runs = table(["run", "state", "program", "tasks", "began", "took", "step", "restarts", ""]);
    this.campaigns = table(["campaign", "state", "program", "began", "runs", "failed", ""]);
    this.empty = h("p", { class: "empty" });
    this.ofCampaigns = h("section", { "aria-labelledby": "h-campaigns" }, h("div", { class: "head" }, h("h2", { id: "h-campaigns" }, "Campaigns")), this.campaigns.root);
    this.root = h(
      "div",
      { class: "page" },
      h("header", { class: "list" }, h("h1", null, "clusterkit"), this.filter),
      h("main", { class: "stack" }, h("section", { "aria-labelledby": "h-runs" }, h("div", { class: "head" }, h("h2", { id: "h-runs" }, "Runs")), this.runs.root, this.empty), this.ofCampaigns),
    );
    store.on(["run"], () => this.update());
    store.on(["campaign"], () => this.updateCampaigns());
  }

  update() {
    const all = this.store.all("run").sort((a, b) => b.wall - a.wall);
    const wanted = this.filter.value.toLowerCase();
    const rows = all.filter((row) => `${row.id} ${row.program} ${row.state} ${row.shape}`.toLowerCase().includes(wanted));
    this.empty.hidden = rows.length > 0;
    const known = this.store.kinds.has("run") || this.answered;
    say(this.empty, all.length ? "No run matches the filter." : known ? "There are no runs yet. Start one with: clusterkit up PROGRAM" : "Loading …");
    keyed(this.runs.body, rows, (row) => row.id, makeRun, showRun);
    this.runs.root.hidden = !rows.length;
  }

  /** The server has answered, perhaps with nothing. */
  connected() {
    this.answered = true;
    this.update();
  }

  updateCampaigns() {
    const rows = this.store.all("campaign").sort((a, b) => b.wall - a.wall);
    this.ofCampaigns.hidden = !rows.length;
    keyed(this.campaigns.body, rows, (row) => row.id, makeCampaign, showCampaign);
  }
}

function table(names) {
  const body = h("tbody");
  const heads = names.map((name) => h("th", { scope: "col" }, name));
  const root = h("div", { class: "wide-table" }, h("table", { class: "list" }, h("thead", null, h("tr", null, heads)), body));
  return { root, body };
}

function makeRow(path, id, cells) {
  const pill = h("span", { class: "pill" });
  const link = h("a", { href: `${path}/${encodeURIComponent(id)}`, class: "mono" }, id);
  const rest = Array.from({ length: cells }, () => h("td"));
  const tr = h("tr", null, h("th", { scope: "row" }, link), h("td", null, pill), rest);
  Object.assign(tr, { pill, rest });
  return tr;
}

function showRow(tr, state, texts) {
  say(tr.pill, state);
  tr.pill.className = `pill ${toneOf(state)}`;
  texts.forEach((text, i) => say(tr.rest[i], text));
}

function makeRun(row) {
  const tr = makeRow("/run", row.id, 7);
  tr.lastElementChild.className = "words";
  return tr;
}

function showRun(tr, row) {
  const { program, shape, wall, step, restarts, text } = row;
  showRow(tr, row.state, [program, shape, moment(wall), seconds(row.seconds), count(step), count(restarts), text]);
  mark(tr.lastElementChild, "title", text);
}

function makeCampaign(row) {
  const tr = makeRow("/campaign", row.id, 5);
  tr.lastElementChild.className = "words";
  return tr;
}

function showCampaign(tr, row) {
  showRow(tr, row.state, [row.program, moment(row.wall), count((row.passed ?? 0) + (row.failed ?? 0)), count(row.failed), row.text]);
}

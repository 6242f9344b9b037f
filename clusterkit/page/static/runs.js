// The page with the lists of all runs and campaigns.

import { Actions } from "./actions.js";
import { fill, h, keyed, mark, say } from "./dom.js";
import { ago, count, metric, moment, plural, seconds } from "./format.js";
import { toneOf } from "./header.js";
import { MOST_COMPARED, query } from "./source.js";

export class RunsPage {
  constructor(store, source, config) {
    this.store = store;
    const actions = new Actions(source, store, config.control);
    this.remove = actions.possible && h("button", { class: "small bad", type: "button", hidden: true, onclick: () => actions.ask("remove", [...this.chosen]) }, "Remove …");
    document.title = "Runs · clusterkit";
    this.filter = h("input", { type: "search", placeholder: "Filter: program, id or state", "aria-label": "Filter the runs", oninput: () => this.changed() });
    this.states = h("select", { "aria-label": "State of the runs that are shown", onchange: () => this.changed() });
    this.grouping = h("select", { "aria-label": "How the runs are grouped", onchange: () => this.changed() }, GROUPS.map(([key, name]) => h("option", { value: key }, name)));
    this.compare = h("a", { class: "home", hidden: true }, "Compare");
    this.chosen = new Set();
    this.sort = { key: "wall", by: -1 };
    this.most = AT_ONCE;
    this.more = h("button", { class: "small", type: "button", hidden: true, onclick: () => this.showMore() });
    this.runs = table([...COLUMNS.map(([name]) => name), ""], (at) => this.sortBy(KEYS[at]));
    this.campaigns = table(["campaign", "state", "program", "began", "runs", "failed", ""]);
    this.empty = h("p", { class: "empty" });
    this.ofCampaigns = h("section", { "aria-labelledby": "h-campaigns" }, h("div", { class: "head" }, h("h2", { id: "h-campaigns" }, "Campaigns")), this.campaigns.root);
    this.root = h(
      "div",
      { class: "page" },
      h("header", { class: "list" }, h("h1", null, "clusterkit"), this.remove, this.compare, this.states, this.grouping, this.filter),
      h("main", { class: "stack" }, h("section", { "aria-labelledby": "h-runs" }, h("div", { class: "head" }, h("h2", { id: "h-runs" }, "Runs")), this.runs.root, this.more, this.empty), this.ofCampaigns),
    );
    this.restore();
    addEventListener("popstate", () => this.restore());
    store.on(["run"], () => this.update());
    store.on(["campaign"], () => this.updateCampaigns());
  }

  /** Show the filter, the state, the groups and the order that the address names. */
  restore() {
    const asked = new URLSearchParams(location.search);
    this.filter.value = asked.get("filter") ?? "";
    this.wantedState = asked.get("state") ?? "";
    const group = asked.get("group");
    if (GROUPS.some(([key]) => key === group)) this.grouping.value = group;
    const [key, way] = (asked.get("sort") ?? "").split(" ");
    if (KEYS.includes(key)) this.sort = { key, by: way === "up" ? 1 : -1 };
    this.showOrder();
    this.update();
  }

  /** Keep what the user chose in the address, without a new entry in the history. */
  changed() {
    this.most = AT_ONCE;
    this.wantedState = this.states.value;
    const { key, by } = this.sort;
    const usual = key === "wall" && by < 0;
    const found = query({
      filter: this.filter.value,
      state: this.wantedState,
      group: this.grouping.value === GROUPS[0][0] ? null : this.grouping.value || "none",
      sort: usual ? null : `${key} ${by > 0 ? "up" : "down"}`,
    });
    history.replaceState(history.state, "", location.pathname + (found && `?${found}`));
    this.update();
  }

  showMore() {
    this.most += AT_ONCE;
    this.update();
  }

  update() {
    const { key, by } = this.sort;
    const value = key === "metric" ? (row) => row.metric?.[1] : (row) => row[key];
    const all = this.store.all("run").sort((a, b) => by * compared(value(a), value(b)) || b.wall - a.wall);
    for (const id of this.chosen) if (!this.store.get(`run/${id}`)) this.chosen.delete(id);
    this.showChosen();
    const states = [...new Set(all.map((row) => row.state))].sort();
    keyed(this.states, ["", ...states], (state) => state, (state) => h("option", { value: state }, state || "all states"));
    if (this.wantedState !== this.states.value && ["", ...states].includes(this.wantedState)) this.states.value = this.wantedState;
    const wanted = this.filter.value.toLowerCase();
    const found = all.filter((row) => (!this.states.value || row.state === this.states.value) && `${row.id} ${row.program} ${row.state} ${row.shape} ${row.part_of}`.toLowerCase().includes(wanted));
    const rows = found.slice(0, this.most);
    this.more.hidden = rows.length === found.length;
    say(this.more, `Show more of ${plural(found.length, "run")}`);
    this.empty.hidden = rows.length > 0;
    const known = this.store.kinds.has("run") || this.answered;
    say(this.empty, all.length ? "No run matches the filter." : known ? "There are no runs yet. Start one with: clusterkit up PROGRAM" : "Loading …");
    const make = (row) => (row.group ? h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: COLUMNS.length + 1 })) : this.makeRun(row));
    keyed(this.runs.body, grouped(rows, this.grouping.value), (row) => row.group ?? `run ${row.id}`, make, (tr, row) => (row.group ? showGroup(tr.firstChild, row) : showRun(tr, row)));
    this.runs.root.hidden = !rows.length;
  }

  makeRun(row) {
    const tr = makeRow("/run", row.id, COLUMNS.length - 1);
    tr.lastElementChild.className = "words";
    const choose = ({ target }) => {
      this.chosen[target.checked ? "add" : "delete"](row.id);
      this.showChosen();
    };
    tr.firstElementChild.prepend(h("input", { type: "checkbox", "aria-label": `Compare ${row.id}`, onchange: choose }), " ");
    return tr;
  }

  /** Update the buttons for the runs that are selected. */
  showChosen() {
    if (this.remove) this.remove.hidden = !this.chosen.size;
    this.compare.hidden = this.chosen.size < 2 || this.chosen.size > MOST_COMPARED;
    mark(this.compare, "href", `/compare/${[...this.chosen].join(",")}`);
  }

  sortBy(key) {
    this.sort = { key, by: key === this.sort.key ? -this.sort.by : ["metric", "wall", "seconds", "step", "restarts"].includes(key) ? -1 : 1 };
    this.showOrder();
    this.changed();
  }

  /** Mark the column by which the runs are sorted. */
  showOrder() {
    const { key, by } = this.sort;
    this.runs.heads.forEach((head, at) => mark(head, "aria-sort", KEYS[at] !== key ? null : by > 0 ? "ascending" : "descending"));
  }

  /** Called after an answer of the server, even if the lists are empty. */
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

/** The columns of the list of runs, each with the field to sort by. Narrow windows don't show the last columns. */
const COLUMNS = [["run", "id"], ["state", "state"], ["program", "program"], ["metric", "metric"], ["began", "wall"], ["took", "seconds"], ["step", "step"], ["restarts", "restarts"], ["tasks", "shape"]]; // prettier-ignore
const KEYS = COLUMNS.map(([, key]) => key);
const GROUPS = [["part_of", "by campaign and exam"], ["program", "by program"], ["none", "not grouped"]]; // prettier-ignore
const AT_ONCE = 100; // the number of runs that are shown at first, and more each time

/** Insert a heading row before each group of rows, in the order of their first rows. Rows without a group come first. */
function grouped(rows, by) {
  const groups = new Map([["", []]]);
  for (const row of rows) {
    const name = row[by] ?? "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return [...groups].flatMap(([name, those]) => (name ? [{ group: `${by} ${name}`, by, name, rows: those }, ...those] : those));
}

/** Show the name of a group, its number of runs, and a link that compares the first of them. */
function showGroup(cell, { by, name, rows }) {
  const ids = rows.slice(0, MOST_COMPARED).map((row) => row.id);
  const [kind, id] = by === "part_of" ? name.split("/", 2) : ["", ""];
  const key = `${ids} ${rows.length}`;
  if (key === cell.shown) return;
  cell.shown = key;
  const title = kind === "campaign" ? h("a", { href: `/campaign/${encodeURIComponent(id)}` }, `campaign ${id}`) : kind ? `${kind} ${id}` : name;
  const what = rows.length > ids.length ? `Compare the first ${ids.length}` : "Compare";
  fill(cell, title, h("small", null, plural(rows.length, "run")), ids.length > 1 && h("a", { href: `/compare/${ids.map(encodeURIComponent).join(",")}` }, what));
}

function compared(a, b) {
  return a === b ? 0 : (a ?? "") < (b ?? "") ? -1 : 1;
}

/** Create a table. With `sort`, clicking the heading of a column calls `sort(column)`. */
function table(names, sort) {
  const body = h("tbody");
  const inside = (name, at) => (sort && name ? h("button", { class: "link", type: "button", onclick: () => sort(at) }, name) : name);
  const heads = names.map((name, at) => h("th", { scope: "col" }, inside(name, at)));
  const root = h("div", { class: "wide-table" }, h("table", { class: "list" }, h("thead", null, h("tr", null, heads)), body));
  return { root, body, heads };
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

function showRun(tr, row) {
  const { program, shape, wall, step, restarts, text } = row;
  const final = row.metric ? `${row.metric[0]} ${metric(row.metric[1])}` : "–";
  showRow(tr, row.state, [program, final, ago(wall, Date.now() / 1000), seconds(row.seconds), count(step), count(restarts), shape, text]);
  mark(tr.lastElementChild, "title", text);
  mark(tr.rest[0], "title", program);
  mark(tr.rest[2], "title", moment(wall));
}

function makeCampaign(row) {
  const tr = makeRow("/campaign", row.id, 5);
  tr.lastElementChild.className = "words";
  return tr;
}

function showCampaign(tr, row) {
  showRow(tr, row.state, [row.program, moment(row.wall), count((row.passed ?? 0) + (row.failed ?? 0)), count(row.failed), row.text]);
}

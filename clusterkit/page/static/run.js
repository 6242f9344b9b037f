// The page of one run.

import { h, keyed, mark } from "./dom.js";
import { Actions } from "./actions.js";
import { Curves } from "./curves.js";
import { Job, Network, Stalls, Startup } from "./details.js";
import { Header } from "./header.js";
import { Lanes } from "./lanes.js";
import { Log } from "./log.js";
import { Place } from "./place.js";
import { Recoveries, Story } from "./story.js";
import { lazily } from "./store.js";
import { Tasks } from "./tasks.js";
import { Timeline } from "./timeline.js";

const KEY = [
  ["start", "starting"],
  ["run", "running"],
  ["lost", "steps lost"],
  ["again", "computed again"],
  ["stopped", "paused"],
  ["stalled", "stalled"],
  ["fault", "fault"],
  ["heal", "healed"],
  ["checkpoint", "checkpoint"],
  ["warning", "warning"],
  ["restart", "restart"],
  ["request", "request"],
  ["host", "host"],
]; // prettier-ignore

export class RunPage {
  constructor(store, source, config) {
    const timeline = new Timeline();
    const actions = new Actions(source, store, config.control);
    const log = new Log(store, source);
    const openLog = (where) => {
      log.goTo(where);
      log.root.scrollIntoView({ block: "nearest" });
    };
    const story = new Story(store, timeline, openLog);
    const choose = (moment, focusLog) => {
      story.choose(moment);
      if (moment) log.goTo({ t: moment.t });
      if (moment && focusLog) log.view.focus();
    };
    const lanes = new Lanes(store, timeline, choose);
    const chooseAt = (moment) => {
      timeline.choose(moment.t);
      choose(moment);
      lanes.root.scrollIntoView({ block: "nearest" });
    };
    const curves = new Curves(store, source, timeline);
    const time = h(
      "section",
      { class: "time", "aria-labelledby": "h-time" },
      h("div", { class: "head" }, h("h2", { id: "h-time" }, "Tasks over time"), key(store), zoomTools(timeline)),
      lanes.root,
      curves.root,
    );
    const side = h("div", { class: "side" }, story.root, new Tasks(store, actions, openLog).root);
    const pairs = [
      [new Recoveries(store, chooseAt), new Startup(store)],
      [new Network(store, actions), new Stalls(store, source)],
    ];
    const more = pairs.map((pair) => h("div", { class: "duo" }, pair.map((one) => one.root)));
    if (source.live) new Place(store, timeline, log, curves, (moment) => story.choose(moment));
    const main = h("main", { class: "run" }, time, side, log.root, more, new Job(store).root);
    this.root = h("div", { class: "page" }, new Header(store, source).root, main);
  }
}

/** The legend of the symbols and colors that the lanes and curves of this run use. */
function key(store) {
  const list = h("ul", { class: "key" });
  const update = lazily(() => {
    const used = new Set(store.all("mark").map(({ kind }) => (kind === "stall" ? "warning" : kind)));
    for (const { segments } of store.all("attempt")) for (const { kind } of segments.length ? segments : [{ kind: "run" }]) used.add(kind);
    if (used.has("lost")) used.add("again");
    keyed(list, KEY.filter(([kind]) => used.has(kind)), ([kind]) => kind, ([kind, name]) => h("li", null, h("i", { class: `k-${kind}` }), name));
  });
  store.on(["attempt", "mark"], update);
  return list;
}

function zoomTools(timeline) {
  const button = (text, label, use) => h("button", { class: "small", type: "button", "aria-label": label, title: label, onclick: use }, text);
  const all = button("All", "All of the run", () => timeline.reset());
  const folds = button("Fold idle time", "Fold idle time, in which no task runs", () => timeline.fold(!timeline.folds));
  const update = () => {
    mark(all, "disabled", !timeline.range);
    folds.hidden = !timeline.idle?.length;
    mark(folds, "aria-pressed", String(timeline.folds));
  };
  timeline.on(update);
  update();
  const zoom = [button("−", "Zoom out", () => timeline.zoom(1 / 0.6)), button("+", "Zoom in", () => timeline.zoom(0.6))];
  return h("div", { class: "tools", title: "Drag to zoom into a part. Ctrl and the wheel zoom; Shift and the wheel move." }, folds, zoom, all);
}

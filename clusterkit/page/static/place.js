// Keeps what a run's page shows in its address, so that a link, the Back button and a reload restore the chosen moment, the
// zoomed range, the curves and the log lines.

import { filterOf } from "./log_lines.js";
import { query } from "./source.js";

const PAUSE = 300; // milliseconds; how long to wait after the last change

export class Place {
  /** `choose(moment)` shows the story of a moment; `choose(null)` shows the latest story. */
  constructor(store, timeline, log, curves, choose) {
    Object.assign(this, { store, timeline, log, curves, choose });
    store.onValue(["run"], () => store.get("run")?.id, () => location.search && this.open());
    timeline.on((what) => what !== "cursor" && this.changed());
    log.moved = () => this.changed();
    curves.moved = () => this.changed();
    addEventListener("popstate", () => this.open());
  }

  /** Show what the address describes. */
  open() {
    if (!this.store.get("run")) return;
    const { timeline, log } = this;
    const asked = new URLSearchParams(location.search);
    this.curves.restore({ chosen: listOf(asked, "curve"), how: listOf(asked, "how"), only: asked.get("only") });
    const { task, attempt, log: text = "", at, zoom } = Object.fromEntries(new URLSearchParams(location.search));
    const t = Number.isFinite(Number(at ?? NaN)) ? Number(at) : null;
    timeline.reset();
    timeline.choose(t);
    const [from, to] = (zoom ?? "").split("~").map(Number);
    if (from < to) timeline.show(timeline.toU(from), timeline.toU(to));
    this.choose(t == null ? null : { t, task: null, text: "", lines: [] });
    log.tools.filter.value = text;
    const known = this.store.get(`task/${task}`) ? { task, attempt } : {};
    log.asked = { ...known, ...filterOf(text) };
    log.tools.update(log.tasks(), log.asked);
    if (t == null) log.open({ from: "end" }, log.tools.isLive);
    else log.goTo({ t });
    this.settled = this.search();
  }

  search() {
    const { range, chosen } = this.timeline;
    const { task, attempt, grep, regex } = this.log.asked;
    const zoom = range?.map((u) => this.timeline.toT(u).toFixed(2)).join("~");
    const found = new URLSearchParams(query({ task, attempt, log: regex ? `/${grep}/` : grep, at: chosen?.toFixed(2), zoom }));
    const curves = this.curves.place();
    for (const [name, values] of [["curve", curves.chosen], ["how", curves.how], ["only", curves.only && [curves.only]]]) {
      for (const value of values ?? []) found.append(name, value);
      if (values && !values.length) found.append(name, ""); // chosen, but none
    }
    return found.size ? `?${found}` : "";
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const now = this.search();
      if (this.store.get("run") && now !== (this.settled ?? "")) history.pushState(null, "", location.pathname + now);
      this.settled = now;
    }, PAUSE);
  }
}

/** Return the values of a parameter; null if the address does not have it. */
function listOf(asked, name) {
  return asked.has(name) ? asked.getAll(name).filter(Boolean) : null;
}

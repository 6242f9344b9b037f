// Keeps what a run's page shows in its address, so that a link, the Back button and a reload restore the chosen moment, the
// zoomed range and the log lines.

import { filterOf } from "./log_lines.js";
import { query } from "./source.js";

const PAUSE = 300; // milliseconds; how long to wait after the last change

export class Place {
  /** `choose(moment)` shows the story of a moment; `choose(null)` shows the latest story. */
  constructor(store, timeline, log, choose) {
    Object.assign(this, { store, timeline, log, choose });
    store.onValue(["run"], () => store.get("run")?.id, () => location.search && this.open());
    timeline.on((what) => what !== "cursor" && this.changed());
    log.moved = () => this.changed();
    addEventListener("popstate", () => this.open());
  }

  /** Show what the address describes. */
  open() {
    if (!this.store.get("run")) return;
    const { timeline, log } = this;
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
    const found = query({ task, attempt, log: regex ? `/${grep}/` : grep, at: chosen?.toFixed(2), zoom });
    return found && `?${found}`;
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

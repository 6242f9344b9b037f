// What the page knows of a run: a flat map from key to entity, and who wants to hear of which kinds.

export class Store {
  constructor() {
    this.kinds = new Map();
    this.wants = [];
    this.changed = new Set();
    this.scheduled = false;
    this.clock = null;
    this.frozen = false; // time stands still: nothing changes any more
    this.filled = new Promise((resolve) => (this.noteFilled = resolve)); // once it has something
  }

  /** Take changes. `whole`: they are everything, and what was known before is dropped. */
  apply(set, now, whole = false) {
    if (whole) {
      for (const [kind, entities] of this.kinds) {
        for (const key of entities.keys()) if (!(key in set)) this.put(key, null, kind);
      }
    }
    for (const [key, entity] of Object.entries(set)) this.put(key, entity);
    if (now != null) this.clock = { now, at: performance.now() };
    this.schedule();
    this.noteFilled();
  }

  put(key, entity, kind = kindOf(key)) {
    let entities = this.kinds.get(kind);
    if (!entities) this.kinds.set(kind, (entities = new Map()));
    if (entity === null) entities.delete(key);
    else entities.set(key, entity);
    this.changed.add(kind);
  }

  /** One entity, or undefined. */
  get(key) {
    return this.kinds.get(kindOf(key))?.get(key);
  }

  /** All of a kind, as [the rest of the key, entity]. */
  entries(kind) {
    return [...(this.kinds.get(kind) ?? [])].map(([key, entity]) => [key.slice(kind.length + 1), entity]);
  }

  /** All of a kind. */
  all(kind) {
    return [...(this.kinds.get(kind)?.values() ?? [])];
  }

  /** Call `update` when the value of `of()` has changed, which a change of these kinds may do; also once now. */
  onValue(kinds, of, update) {
    let last;
    this.on(kinds, () => {
      const value = of();
      if (value === last) return;
      last = value;
      update();
    });
  }

  /** The tasks and their colors, as a text that differs when they do. */
  colors() {
    return this.all("task").map((row) => `${row.task} ${row.color}`).join();
  }

  /** Whether the run can still change. */
  isLive() {
    return this.get("run")?.phase !== "over";
  }

  /** Seconds since the run began. */
  now() {
    const run = this.get("run");
    if (run?.ended != null) return run.ended;
    if (!this.clock) return 0;
    const live = !this.frozen && run && run.phase !== "over";
    return this.clock.now + (live ? Math.min(performance.now() - this.clock.at, 5000) / 1000 : 0);
  }

  /** Call `update` before the next frame after any of the kinds has changed; also once now. */
  on(kinds, update) {
    this.wants.push({ kinds, update });
    update();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.scheduled = false;
    const changed = this.changed;
    this.changed = new Set();
    for (const want of this.wants) if (want.kinds.some((kind) => changed.has(kind))) want.update();
  }
}

const LATEST = 200; // milliseconds

/** `update` for what stands below the first screen: it waits until all else has been drawn. */
export function lazily(update) {
  let waits = false;
  const now = () => {
    waits = false;
    update();
  };
  return () => {
    if (!waits) requestAnimationFrame(() => (globalThis.requestIdleCallback ? requestIdleCallback(now, { timeout: LATEST }) : setTimeout(now)));
    waits = true;
  };
}

function kindOf(key) {
  const slash = key.indexOf("/");
  return slash < 0 ? key : key.slice(0, slash);
}

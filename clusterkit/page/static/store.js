// The entities that the page has received: a map from keys to entities, with subscriptions to changes of certain kinds.

import { Connection } from "./connection.js";

export class Store {
  connection = new Connection();

  constructor() {
    this.kinds = new Map();
    this.wants = [];
    this.changed = new Set();
    this.scheduled = false;
    this.clock = null;
    this.filled = new Promise((resolve) => (this.noteFilled = resolve)); // resolved when the store gets its first entities
  }

  /** Apply changes. If `whole` is true, `set` has all entities, and others are removed. */
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

  /** Return the entity with a key, or undefined. */
  get(key) {
    return this.kinds.get(kindOf(key))?.get(key);
  }

  /** Return all entities of a kind as pairs [key without the kind, entity]. */
  entries(kind) {
    return [...(this.kinds.get(kind) ?? [])].map(([key, entity]) => [key.slice(kind.length + 1), entity]);
  }

  /** Return all entities of a kind. */
  all(kind) {
    return [...(this.kinds.get(kind)?.values() ?? [])];
  }

  /** Call `update` now, and whenever entities of these kinds change and the value of `of()` has changed, too. */
  onValue(kinds, of, update) {
    let last;
    this.on(kinds, () => {
      const value = of();
      if (value === last) return;
      last = value;
      update();
    });
  }

  /** Return a text that changes whenever the tasks or their colors change. */
  colors() {
    return this.all("task").map((row) => `${row.task} ${row.color}`).join();
  }

  /** Set the state of the connection, on which all parts of the page depend. Time stands still while it is not known. */
  become(state, text) {
    const now = this.now();
    if (!this.connection.become(state, text)) return;
    if (this.clock) this.clock = { now, at: performance.now() };
    this.changed.add("run");
    this.schedule();
  }

  /** Return whether the run is over, so that nothing of it changes any more. */
  isOver() {
    return this.get("run")?.phase === "over";
  }

  /** Return whether the run goes on, as far as is known now. */
  isLive() {
    return !this.isOver() && this.connection.known;
  }

  /** Return the number of seconds since the run began; of an ended run, its duration. */
  now() {
    const run = this.get("run");
    if (run?.ended != null) return run.ended;
    if (!this.clock) return 0;
    const live = run && this.isLive() && this.connection.state !== "embedded";
    return this.clock.now + (live ? Math.min(performance.now() - this.clock.at, 5000) / 1000 : 0);
  }

  /** Call `update` now, and before the next frame whenever entities of these kinds have changed. */
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

const LATEST = 200; // milliseconds; the maximum delay of a lazy update

/** Delay `update` until everything else has been drawn. For sections that are not visible without scrolling. */
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

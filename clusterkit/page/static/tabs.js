// A tab's side of the hub that follows runs and logs for all tabs.

import { named } from "./ahead.js";
import { Hub } from "./hub.js";

export class Follower {
  constructor(access) {
    this.access = access;
    addEventListener("focus", () => this.hurry());
  }

  /** Follow a part, as `Hub.start` does. Returns a function that ends this. */
  start(part, tell) {
    let end = null;
    let ended = false;
    this.ready ??= this.open();
    this.ready.then((hub) => {
      if (!ended) end = hub.start(part, tell);
    });
    return () => {
      ended = true;
      end?.();
    };
  }

  async hurry() {
    (await this.ready)?.hurry();
  }

  async open() {
    const keys = await this.access.proved().catch(() => null);
    const token = keys?.reading ?? this.access.tokens[0];
    if (globalThis.SharedWorker && navigator.locks && token) {
      try {
        return await shared(token);
      } catch {
        // The browser refuses shared workers, for example in a private window.
      }
    }
    return own(token);
  }
}

/** Return a hub of this tab alone. */
function own(token) {
  const hub = new Hub();
  hub.token = token;
  addEventListener("pagehide", () => hub.close());
  return hub;
}

/** Return a hub of the shared worker. */
async function shared(token) {
  const worker = new SharedWorker("/static/worker.js", { type: "module", name: await named(token) });
  const [lock, started] = [crypto.randomUUID(), new Map()];
  let numbers = 0;
  await new Promise((held) => {
    navigator.locks.request(lock, () => {
      held();
      return new Promise(() => null); // never resolved: the browser releases the lock when the tab is gone
    });
  });
  const { port } = worker;
  port.onmessage = ({ data: { ping, of, ...told } }) => {
    if (ping) port.postMessage({ there: true });
    else started.get(of)?.tell(told);
  };
  port.postMessage({ token, lock });
  addEventListener("pagehide", () => port.postMessage({ gone: true }));
  addEventListener("pageshow", (event) => event.persisted && location.reload()); // the browser had kept the page, without its worker
  let instead = null;
  worker.addEventListener("error", () => {
    // The worker's script could not be fetched, since the server has just ended.
    instead ??= own(token);
    for (const one of started.values()) one.end = instead.start(one.part, one.tell);
  });
  return {
    start(part, tell) {
      const start = (numbers += 1);
      const one = { part, tell, end: () => port.postMessage({ end: start }) };
      started.set(start, one);
      if (instead) one.end = instead.start(part, tell);
      else port.postMessage({ start, part });
      return () => {
        started.delete(start);
        one.end();
      };
    },
    hurry: () => (instead ? instead.hurry() : port.postMessage({ hurry: true })),
  };
}

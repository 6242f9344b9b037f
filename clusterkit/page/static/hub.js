// Follows runs and logs over one connection, for all tabs of the page: a browser opens only six connections to a server.
// It runs in a shared worker or, where the browser has none, in each tab.

import { proven, request } from "./ahead.js";
import { messages } from "./events.js";

const SOON = 10; // milliseconds; changes of what is followed within this time need one new stream only
const SILENT = 12; // seconds without a sign of the server after which what the page shows may be old; the server gives one every 4 s
const DEAD = 40; // seconds without a sign after which the connection is given up
const LONGEST_WAIT = 15000; // milliseconds; the maximum time between attempts to reach a server
const LONGEST = 6000; // characters of an address; further parts wait until others have ended

/**
 * What is followed is a part: {run, from} for the changes of a run since an offset or, with `log`, a query, the lines of its
 * logs since a cursor. Its owner is told {event: "data" | "over" | "refused", id, data}, and with {state} what the connection
 * is: connected, lagging, reconnecting, gone, or unknown (the server does not know the token).
 */
export class Hub {
  constructor() {
    this.parts = new Map();
    this.token = null;
    this.state = "reconnecting";
    this.failures = 0;
    this.numbers = 0;
    setInterval(() => this.look(), 1000);
  }

  /** Follow a part. Returns a function that ends this. */
  start(part, tell) {
    const name = String((this.numbers += 1));
    this.parts.set(name, { part: { ...part }, tell });
    tell({ state: this.state });
    this.reopenSoon();
    return () => this.parts.delete(name) && this.reopenSoon();
  }

  /** Follow nothing, until something is started. */
  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.control?.abort("new");
    this.control = null;
  }

  /** Try again at once, for example since somebody looks at a tab. */
  hurry() {
    if (this.waits) this.reopenSoon();
  }

  reopenSoon() {
    clearTimeout(this.timer);
    this.closed = this.waits = false;
    this.reopens = true;
    this.timer = setTimeout(() => this.open(), SOON);
  }

  become(state) {
    if (state === this.state) return;
    this.state = state;
    for (const { tell } of this.parts.values()) tell({ state });
  }

  look() {
    if (!this.control || this.heard == null) return;
    const silent = (performance.now() - this.heard) / 1000;
    if (silent > SILENT && this.state === "connected") this.become("lagging");
    if (silent > DEAD) this.control.abort("dead");
  }

  address() {
    const asked = {};
    for (const [name, { part, done }] of this.parts) {
      if (done) continue;
      if (JSON.stringify(asked).length + JSON.stringify(part).length > LONGEST / 2) break;
      asked[name] = part;
    }
    return `/api/follow?${new URLSearchParams({ parts: JSON.stringify(asked) })}`;
  }

  async open() {
    this.reopens = false;
    this.control?.abort("new");
    const control = (this.control = new AbortController());
    this.heard = null;
    const failed = await this.read(control).catch(() => "lost");
    if (this.reopens || control.signal.reason === "new" || control !== this.control) return;
    this.control = null;
    this.proved = false;
    this.failures += 1;
    this.become(failed === "unknown" ? "unknown" : this.failures > 3 ? "gone" : "reconnecting");
    this.waits = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), Math.min(500 * 2 ** this.failures, LONGEST_WAIT));
  }

  /** Read a stream to its end. Returns "unknown" if the server does not know the token. */
  async read(control) {
    if (!this.token) return "unknown";
    this.proved ||= Boolean(await proven([this.token]));
    if (!this.proved) return "unknown";
    const answer = await request(this.address(), this.token, { signal: control.signal, cache: "no-store" });
    if (answer.status === 403) return "unknown";
    if (!answer.ok) return "lost";
    this.failures = 0;
    this.heard = performance.now();
    this.become("connected");
    for await (const message of messages(answer.body)) {
      if (control.signal.aborted) break;
      this.heard = performance.now();
      this.become("connected");
      if (message.event === "renew") this.reopenSoon();
      else this.pass(message);
    }
    return "lost";
  }

  pass({ of, event = "data", id, data }) {
    const known = this.parts.get(of);
    if (!known || known.done || (event === "data" && !data)) return;
    if (id) known.part.from = id;
    if (event !== "data") known.done = true; // its owner is still told of the connection
    known.tell({ event, id, data: data && JSON.parse(data) });
  }
}

// Where the page's data comes from: a dashboard's server, or what is embedded in a report file.

import { embeddedSource } from "./embedded.js";

/** An answer that is no data. `kind`: refused, missing, gone (no server), or wrong. */
export class SourceError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** The source of this document. */
export function openSource() {
  const element = document.getElementById("embedded");
  return element ? embeddedSource(JSON.parse(element.textContent)) : new LiveSource(location.pathname);
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new SourceError("gone", "The dashboard's server does not answer.");
  }
  if (answer.status === 401 || answer.status === 403) {
    const why = await errorOf(answer);
    throw new SourceError("refused", why ?? "The server has not accepted this browser.");
  }
  if (answer.status === 404) throw new SourceError("missing", (await errorOf(answer)) ?? "There is nothing here.");
  if (!answer.ok) throw new SourceError("wrong", (await errorOf(answer)) ?? `The server answered ${answer.status}.`);
  try {
    return await answer.json();
  } catch {
    throw new SourceError("gone", "The server's answer was cut off.");
  }
}

async function errorOf(answer) {
  try {
    const { error } = await answer.json();
    return typeof error === "string" ? error : null;
  } catch {
    return null;
  }
}

function query(values) {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value != null && value !== "") found.set(key, value);
  return found.toString();
}

export function placeOf(path) {
  const [, kind, id] = path.match(/^\/(run|campaign)\/([^/]+)\/?$/) ?? [];
  return kind ? { page: kind, id: decodeURIComponent(id) } : { page: "runs" };
}

class LiveSource {
  constructor(path) {
    this.live = true;
    this.home = { href: "/", text: "All runs" };
    this.place = placeOf(path);
    this.base = `/api/run/${encodeURIComponent(this.place.id ?? "")}`;
  }

  /** The address of a run's page; null: it has none. */
  hrefOf(run) {
    return `/run/${encodeURIComponent(run)}`;
  }

  config() {
    return ask("/api/config");
  }

  /** Keep the store up to date. `tell(state, text)`: connected, over, reconnecting, gone, refused, missing. */
  watch(store, tell) {
    if (this.place.page === "run") return new RunStream(this.base, store, tell).open();
    const paths = { runs: ["/api/runs", "/api/campaigns"], campaign: [`/api/campaign/${encodeURIComponent(this.place.id)}`] };
    return poll(paths[this.place.page], store, tell);
  }

  series(names, begin, end, points) {
    return ask(`${this.base}/series?${query({ names: names.join(","), begin, end, points })}`).then((a) => a.series);
  }

  log(asked) {
    return ask(`${this.base}/log?${query(asked)}`);
  }

  /** A text file of the run's directory, such as the stacks of a stall. */
  async file(path) {
    const answer = await fetch(`${this.base}/file/${path}`).catch(() => null);
    if (!answer?.ok) throw new SourceError("missing", `${path} can't be read; it is in the run's directory.`);
    return answer.text();
  }

  /** Follow the log from a cursor; `over` is called when nobody writes any more. Returns what ends that. */
  followLog(asked, cursor, take, over) {
    let stream = null;
    let timer = null;
    let from = cursor;
    const open = () => {
      stream = new EventSource(`${this.base}/log/stream?${query({ ...asked, from })}`);
      stream.onmessage = (message) => {
        const data = JSON.parse(message.data);
        from = data.next ?? from;
        take(data);
      };
      stream.addEventListener("over", () => {
        stream.close();
        over();
      });
      stream.onerror = () => {
        stream.close(); // it would begin at its first cursor again
        timer = setTimeout(open, 1000);
      };
    };
    open();
    return () => {
      clearTimeout(timer);
      stream.close();
    };
  }

  act(body) {
    const headers = { "Content-Type": "application/json" };
    return ask(`${this.base}/act`, { method: "POST", headers, body: JSON.stringify(body) }).then((a) => a.text);
  }
}

/** The changes of a run, over as many connections as it takes. */
class RunStream {
  constructor(base, store, tell) {
    Object.assign(this, { base, store, tell });
    this.failures = 0;
  }

  open() {
    const stream = new EventSource(`${this.base}/stream${this.offset ? `?from=${this.offset}` : ""}`);
    stream.onopen = () => {
      this.failures = 0;
      this.tell("connected");
    };
    stream.onmessage = (message) => {
      const { set, now } = JSON.parse(message.data);
      this.store.apply(set, now, !this.offset); // the first message has everything
      this.offset = message.lastEventId || "0";
    };
    stream.addEventListener("over", () => {
      stream.close();
      this.tell("over");
    });
    stream.onerror = () => {
      this.failures += 1;
      if (stream.readyState === EventSource.CLOSED) this.explain();
      else this.tell(this.failures > 10 ? "gone" : "reconnecting");
    };
    return this;
  }

  /** The browser has given up: say why, and try again where that can help. */
  async explain() {
    try {
      await ask("/api/config");
      await ask(`${this.base}/log?limit=1&from=end`);
      this.tell("reconnecting");
    } catch (error) {
      if (error.kind === "missing" || (error.kind === "refused" && !this.offset)) return this.tell(error.kind, error.message);
      this.tell(error.kind === "refused" ? "renewed" : this.failures > 10 ? "gone" : "reconnecting");
    }
    setTimeout(() => this.open(), Math.min(500 * 2 ** this.failures, 5000));
    return undefined;
  }
}

function orNothing(error) {
  if (error.kind === "missing") return { entities: {} };
  throw error;
}

/** Ask again and again, every 2 seconds. */
function poll(paths, store, tell) {
  let failures = 0;
  const once = async () => {
    try {
      const answers = await Promise.all(paths.map((path, i) => (i ? ask(path).catch(orNothing) : ask(path))));
      store.apply(Object.assign({}, ...answers.map((answer) => answer.entities)), null, true);
      failures = 0;
      tell("connected");
    } catch (error) {
      failures += 1;
      if (error.kind === "refused" || error.kind === "missing") return tell(error.kind, error.message);
      tell(error.kind === "wrong" ? "wrong" : failures > 5 ? "gone" : "reconnecting", error.message);
    }
    setTimeout(once, 2000);
  };
  once();
}

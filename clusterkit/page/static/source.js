// The source of the page's data: a dashboard's server, or the data that is embedded in a report file.

import { Access } from "./access.js";
import { embeddedSource } from "./embedded.js";
import { Follower } from "./tabs.js";

/** A failed request. `kind` is refused, missing, gone (the server does not answer) or wrong. */
export class SourceError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** Return the source of this document's data. */
export async function openSource() {
  const element = document.getElementById("embedded");
  return element ? embeddedSource(JSON.parse(element.textContent)) : new LiveSource(location.pathname, new Access());
}

async function ask(access, path, options) {
  const answer = await access.fetch(path, options).catch(() => {
    throw new SourceError("gone", "The dashboard's server does not answer.");
  });
  if (!answer.ok) throw await refusal(answer);
  try {
    return await answer.json();
  } catch {
    throw new SourceError("gone", "The server's answer was cut off.");
  }
}

/** Convert an error response to a SourceError. */
async function refusal(answer) {
  const why = await errorOf(answer);
  if (answer.status === 401 || answer.status === 403) return new SourceError("refused", why ?? "The server has not accepted this browser.");
  if (answer.status === 404) return new SourceError("missing", why ?? "There is nothing here.");
  return new SourceError("wrong", why ?? `The server answered ${answer.status}.`);
}

async function errorOf(answer) {
  try {
    const { error } = await answer.json();
    return typeof error === "string" ? error : null;
  } catch {
    return null;
  }
}

const LONGEST_WAIT = 15000; // milliseconds; the maximum time between attempts to reach a server

/** Call `go` after a delay that grows with `failures`, or when the page gets the focus. */
function again(failures, go) {
  const now = () => {
    clearTimeout(timer);
    removeEventListener("focus", now);
    go();
  };
  const timer = setTimeout(now, Math.min(500 * 2 ** failures, LONGEST_WAIT));
  addEventListener("focus", now);
}

export function query(values) {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value != null && value !== "") found.set(key, value);
  return found.toString();
}

export const MOST_COMPARED = 8; // the maximum number of runs that can be compared

/** Return the kind of page and the id in a path; `ids` are the runs to compare. If the path is not UTF-8, the id is empty. */
export function placeOf(path) {
  const [, kind, text] = path.match(/^\/(run|campaign|compare)\/([^/]+)\/?$/) ?? [];
  if (!kind) return { page: "runs" };
  try {
    const id = decodeURIComponent(text);
    return { page: kind, id, ids: [...new Set(id.split(",").filter(Boolean))].slice(0, MOST_COMPARED) };
  } catch {
    return { page: kind, id: "", ids: [] };
  }
}

function baseOf(run) {
  return `/api/run/${encodeURIComponent(run)}`;
}

class LiveSource {
  constructor(path, access) {
    this.live = true;
    this.access = access;
    this.follower = new Follower(access);
    this.home = { href: "/", text: "All runs" };
    this.place = placeOf(path);
    this.base = baseOf(this.place.id ?? "");
  }

  /** Return the address of a run's page; in a report, null if the run is not part of it. */
  hrefOf(run) {
    return `/run/${encodeURIComponent(run)}`;
  }

  ask(path, options) {
    return ask(this.access, path, options);
  }

  async config() {
    const config = await this.ask("/api/config");
    return { ...config, control: config.control && Boolean(this.access.keys?.control) };
  }

  /** Keep the store up to date. `tell(state, text)` gets the states of connection.js, and refused or missing at the beginning. */
  watch(store, tell) {
    if (this.place.page === "run") return this.watchRun(store, tell);
    if (this.place.page === "compare") return this.watchMany(store, tell);
    const paths = { runs: ["/api/runs", "/api/campaigns"], campaign: [`/api/campaign/${encodeURIComponent(this.place.id)}`] };
    return poll((path) => this.ask(path), paths[this.place.page], store, tell);
  }

  async watchRun(store, tell, failures = 0) {
    let first;
    try {
      first = await this.ask(`${this.base}/entities`);
    } catch (error) {
      if (error.kind === "refused" || error.kind === "missing") return tell(error.kind, error.message);
      tell(failures > 3 ? "gone" : "reconnecting", error.message);
      return again(failures, () => this.watchRun(store, tell, failures + 1));
    }
    this.named(first.entities.run?.id);
    store.apply(first.entities, first.now, true);
    tell("connected");
    const end = this.follower.start({ run: this.place.id, from: String(first.offset) }, ({ state, event, data }) => {
      if (state) this.became(state, tell);
      else if (event === "data") store.apply(data.set, data.now);
      else if (event === "refused") {
        end(); // nothing more is to be known of the run
        tell("removed");
      }
    });
    return end;
  }

  /** Go on with the whole id of a run whose id was shortened in the address. */
  named(id) {
    if (!id || id === this.place.id) return;
    this.place.id = id;
    this.base = baseOf(id);
    history.replaceState(history.state, "", this.hrefOf(id) + location.search);
  }

  /** Pass on the state of the connection; the token is in the browser's storage only while there is one. */
  became(state, tell) {
    if (state === "connected") this.access.proved().catch(() => null);
    else if (state !== "lagging") this.access.lost();
    tell(state);
  }

  /** Keep all compared runs up to date, until each of them is over or does not exist. */
  watchMany(store, tell) {
    const isOver = (id) => (store.get(`of/${id}`)?.run?.phase ?? "over") === "over";
    const once = async (id) => {
      const known = store.get(`of/${id}`);
      return { entities: { [`of/${id}`]: known && isOver(id) ? known : (await this.ask(`${baseOf(id)}/entities`).catch(orNothing)).entities } };
    };
    return poll(once, this.place.ids, store, tell, () => this.place.ids.every(isOver));
  }

  /** Fetch points of curves, of the page's run or of the run that is named. */
  series(names, begin, end, points, run) {
    const named = names.map((name) => `name=${encodeURIComponent(name)}`).join("&");
    return this.ask(`${run ? baseOf(run) : this.base}/series?${named}&${query({ begin, end, points })}`).then((a) => a.series);
  }

  log(asked) {
    return this.ask(`${this.base}/log?${query(asked)}`);
  }

  /** Fetch a text file from the run's directory, such as the stacks of a stall. */
  async file(path) {
    const answer = await this.access.fetch(`${this.base}/file/${path}`).catch(() => null);
    if (!answer?.ok) throw new SourceError("missing", `${path} can't be read; it is in the run's directory.`);
    return answer.text();
  }

  /** Return an address with which the browser can open such a file in a new tab. */
  addressOf(path) {
    return this.access.ticketed(`${this.base}/file/${path}`);
  }

  /** Follow the log from a cursor. `over` is called when the log is complete. Returns a function that stops following. */
  followLog(asked, cursor, take, over) {
    return this.follower.start({ run: this.place.id, log: query(asked), from: cursor }, ({ event, data }) => {
      if (event === "data") take(data);
      else if (event) over();
    });
  }

  /** Request an action on the page's run, or on the run that is named. */
  act(body, run) {
    const headers = { "Content-Type": "application/json" };
    return this.ask(`${run ? baseOf(run) : this.base}/act`, { method: "POST", headers, body: JSON.stringify(body) }).then((a) => a.text);
  }
}

function orNothing(error) {
  if (error.kind === "missing") return { entities: {} };
  throw error;
}

/** Request the paths every 2 seconds until `isOver()`. */
function poll(ask, paths, store, tell, isOver = () => false) {
  let failures = 0;
  let known = false;
  const once = async () => {
    try {
      const answers = await Promise.all(paths.map((path, i) => (i ? ask(path).catch(orNothing) : ask(path))));
      store.apply(Object.assign({}, ...answers.map((answer) => answer.entities)), null, true);
      failures = 0;
      known = true;
      tell("connected");
      if (isOver()) return tell("over");
    } catch (error) {
      failures += 1;
      if (!known && (error.kind === "refused" || error.kind === "missing")) return tell(error.kind, error.message);
      tell({ refused: "unknown", missing: "removed", wrong: "wrong" }[error.kind] ?? (failures > 3 ? "gone" : "reconnecting"), error.message);
    }
    if (failures) again(failures, once);
    else setTimeout(once, 2000);
    return undefined;
  };
  once();
}

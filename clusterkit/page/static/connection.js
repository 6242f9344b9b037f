// What the page knows of its connection, in one place: every part of the page asks here whether what it shows is so now.

/** The states of the connection, each with what the page says of it; `known` if what the page shows is so now. */
export const STATES = {
  connected: { known: true },
  embedded: { known: true }, // a report, which has all data
  over: { known: true }, // nothing is asked any more
  reconnecting: { known: true, says: () => "Reconnecting … The page may be out of date." },
  lagging: { says: () => "The server has not been heard of for a while. The page may be out of date." },
  wrong: { says: (run, { text }) => text },
  removed: { says: () => "This run was removed from the disk. The page shows the last known state; `clusterkit ls` lists the existing runs." },
  unknown: { says: (run) => `Another server answers at this address now, and the page has told it nothing. ${OPENS[kindOf(run)](run)}` },
  gone: { says: (run) => `The server of this page has ended, or can't be reached. ${OPENS[kindOf(run)](run)}` },
};

/** How to go on, for the page of a run that is over, of one that may be live, and of runs in general. */
const OPENS = {
  over: (run) => `The run is over: \`clusterkit dashboard ${run.id}\` opens it again.`,
  live: (run) => `The page does not know what the run does now: \`clusterkit ps ${run.id}\` tells, and \`${started(run.id)}\` shows it again. ${THIS_TAB}`,
  all: () => `Start it again with \`${started()}\`. ${THIS_TAB}`,
};
const THIS_TAB = "Put the address that this prints into the tab.";

function kindOf(run) {
  if (!run) return "all";
  return run.phase === "over" ? "over" : "live";
}

function started(id = "") {
  return `clusterkit dashboard --port ${location.port} ${id}`.trim();
}

export class Connection {
  state = "connected";
  text = "";
  since = Date.now(); // when the state began

  /** Set the state. Returns whether it differs from the one before. */
  become(state, text = "") {
    if (state === this.state && text === this.text) return false;
    if (this.known || STATES[state].known) this.since = Date.now();
    Object.assign(this, { state, text });
    return true;
  }

  /** Whether what the page shows is so now. */
  get known() {
    return Boolean(STATES[this.state].known);
  }

  /** Return what the banner says. */
  says(run) {
    return STATES[this.state].says?.(run, this) ?? "";
  }
}

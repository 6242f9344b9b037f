// Opens the page that the address names. If there is nothing to show, a sentence says why.

import { CampaignPage } from "./campaign.js";
import { ComparePage } from "./compare.js";
import { fill, h, tell } from "./dom.js";
import { bytes, moment } from "./format.js";
import { RunPage } from "./run.js";
import { RunsPage } from "./runs.js";
import { openSource } from "./source.js";
import { Store } from "./store.js";

const REFUSED = "This tab has no access. Open the address that `clusterkit dashboard` printed: it has a token, which is another one each time the dashboard is started. Links of the page open in other tabs with Ctrl and a click.";
const FILLED_WITHIN = 300; // milliseconds; how long to wait for the first data before the page is shown empty

const app = document.getElementById("app");
const banner = h("div", { class: "banner", role: "status", "aria-live": "polite", hidden: true });

function full(title, text, link) {
  document.title = `${title} · clusterkit`;
  fill(app, h("main", { class: "full" }, h("h1", null, title), h("p", null, text), link ? h("p", null, h("a", { href: "/" }, "All runs")) : null));
}

function heard(store, source, page, state, text) {
  app.dataset.connection = state;
  if (state === "refused") return full("No access", REFUSED);
  if (state === "missing") return full("Nothing here", text || "There is no such run.", source.live && source.place.page !== "runs");
  if (state === "connected" || state === "over") page.connected?.();
  store.become(state, text);
  const words = store.connection.says(store.get("run"));
  banner.hidden = !words;
  return tell(banner, words);
}

async function configOf(source) {
  try {
    return await source.config();
  } catch (error) {
    if (error.kind !== "gone") throw error;
    fill(app, h("main", { class: "full" }, h("p", { role: "status" }, "Connecting …")));
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return configOf(source);
  }
}

function footer({ version, made, left_out: left, log_bytes: all }) {
  const report = made ? ` · report of ${moment(made)}` : "";
  return `clusterkit ${version}${report}${left ? ` · ${bytes(left)} of ${bytes(all)} of logs are left out` : ""}`;
}

async function start() {
  const source = await openSource();
  const store = new Store();
  let [page, heardLast] = [null, null];
  source.watch(store, (...news) => (page ? heard(store, source, page, ...news) : (heardLast = news))); // the data may arrive before the page exists
  if (source.place.page === "run") document.createElement("canvas").getContext("2d"); // creating the first context takes a browser 40 ms: do it while waiting for the server
  let config;
  try {
    config = await configOf(source);
  } catch (error) {
    return error.kind === "refused" ? full("No access", REFUSED) : full("This page can't be shown", error.message);
  }
  await Promise.race([store.filled, new Promise((resolve) => setTimeout(resolve, FILLED_WITHIN))]); // wait for the data, so that the page is drawn only once
  page = new { runs: RunsPage, run: RunPage, campaign: CampaignPage, compare: ComparePage }[source.place.page](store, source, config);
  store.changed.clear(); // the parts of the page have just drawn all entities
  fill(app, page.root, h("footer", null, footer(config)), banner);
  if (heardLast) heard(store, source, page, ...heardLast);
  return undefined;
}

start();

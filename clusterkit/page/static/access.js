// The access token: read from the fragment of the address, stored by each tab, and sent in a header of each request.
// Why not a cookie: browsers send cookies to every port of 127.0.0.1, including the ports of other users' servers.
// Why no tab asks others for a token: a tab that another user's server filled, on the same port before, would ask, too.

import { KEY, ahead, answerTo, given, proven, request } from "./ahead.js";

const LEAVES_WITHIN = 500; // milliseconds; a tab that is still there has not gone elsewhere
const OTHER = "The server at this address does not know the token of this tab.";

export class Access {
  constructor() {
    this.tokens = ahead.tokens;
    this.proof = ahead.proof; // a promise of what `proven` returns; null if the server has to prove itself again
    this.keys = null;
    if (given()) history.replaceState(history.state, "", location.pathname + location.search); // so that nobody copies it by accident
    addEventListener("hashchange", () => this.take());
    document.addEventListener("click", (event) => (event.ctrlKey || event.metaKey || event.shiftKey) && opened(event));
    document.addEventListener("auxclick", (event) => event.button === 1 && opened(event));
  }

  /** Take a token that the user has put into the address, if the server knows it. */
  async take() {
    const token = given();
    if (!token) return;
    history.replaceState(history.state, "", location.pathname + location.search);
    const keys = await proven([token]).catch(() => null);
    if (!keys) return;
    store(token);
    location.reload();
  }

  /** Return the keys, once the server has proved that it knows them; null if it does not. Throws if no server answers. */
  async proved() {
    this.proof ??= this.tokens.length ? proven(this.tokens) : Promise.resolve(null);
    try {
      this.keys = await this.proof;
    } catch (error) {
      this.lost();
      throw error;
    }
    if (this.keys) this.tokens = [this.keys.token];
    else this.proof = null; // the server may be another one by the next request
    store(this.keys?.token);
    return this.keys;
  }

  /** Note that the connection was lost: whoever answers next has to prove itself, and a page of theirs must find no token. */
  lost() {
    this.proof = null;
    // Requests also fail when the tab goes elsewhere, which says nothing about the server; then, this is never called.
    setTimeout(() => this.proof || store(null), LEAVES_WITHIN);
  }

  /** Call `fetch` with the token, or return the answer to a request that was made ahead. */
  async fetch(path, options) {
    const acts = options?.method === "POST";
    if (acts) this.proof = null; // who may act is never sent without a proof of now
    const keys = await this.proved();
    if (!keys) return refusal();
    const answer = await answerTo(path);
    if (answer) return answer;
    try {
      return await request(path, acts ? keys.control : keys.reading, options);
    } catch (error) {
      if (error.name !== "AbortError") this.lost();
      throw error;
    }
  }

  /** Return an address with which the browser itself can open a file for 30 seconds. Throws if access is refused. */
  async ticketed(path) {
    const answer = await this.fetch(`/api/ticket?${new URLSearchParams({ path })}`);
    const { ticket, error } = await answer.json();
    if (!ticket) throw new Error(error ?? "The server gives no access to this file.");
    return `${path}?${new URLSearchParams({ ticket })}`;
  }
}

function refusal() {
  return new Response(JSON.stringify({ error: OTHER }), { status: 403 });
}

function store(token) {
  try {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  } catch {
    // The browser does not allow storage, so a reload will need the address with the token again.
  }
}

/** Open a link of the page in another tab so that the tab has a copy of this one's token, which a plain click would not do. */
function opened(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || link.origin !== location.origin || link.hasAttribute("download") || link.hash) return;
  event.preventDefault();
  open(link.href);
}

// The token: from the fragment of the address, kept by this tab and its siblings, and sent in a header of each request.
// Why not a cookie: browsers send it to every port of 127.0.0.1, on which other users' servers listen, too.

import { KEY, answerTo, given, isToken, kept, request } from "./ahead.js";

const WITHIN = 300; // milliseconds for another tab to answer

/** What this tab may ask with, once its siblings have been asked for a token that it lacks. */
export async function openAccess() {
  const access = new Access();
  if (!access.token) await access.borrow();
  return access;
}

class Access {
  constructor() {
    this.tabs = new BroadcastChannel(KEY); // with pages of this server alone
    this.token = kept();
    this.tabs.addEventListener("message", ({ data }) => this.heard(data));
    this.take();
    addEventListener("hashchange", () => this.take() && location.reload());
  }

  /** Take the token out of the address, so that nobody copies it from there. Returns whether there was one. */
  take() {
    const found = given();
    if (!found) return false;
    history.replaceState(history.state, "", location.pathname + location.search);
    this.keep(found);
    this.tabs.postMessage({ token: found });
    return true;
  }

  keep(token) {
    this.token = token;
    try {
      sessionStorage.setItem(KEY, token);
    } catch {
      // The browser keeps nothing: a reload needs the address again.
    }
  }

  heard(data) {
    if (isToken(data?.token)) this.keep(data.token);
    else if (data?.wanted && this.token) this.tabs.postMessage({ token: this.token });
  }

  async borrow() {
    this.tabs.postMessage({ wanted: true });
    for (let waited = 0; !this.token && waited < WITHIN; waited += 20) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** `fetch` with the token. */
  async fetch(path, options) {
    return (await answerTo(path)) ?? request(path, this.token, options);
  }

  /** An address of a file that the browser can open by itself, for half a minute. Throws when there is no answer. */
  async ticketed(path) {
    const answer = await this.fetch(`/api/ticket?${new URLSearchParams({ path })}`);
    const { ticket, error } = await answer.json();
    if (!ticket) throw new Error(error ?? "The server gives no access to this file.");
    return `${path}?${new URLSearchParams({ ticket })}`;
  }
}

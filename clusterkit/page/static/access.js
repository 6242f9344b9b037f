// The access token: read from the fragment of the address, stored by each tab, and sent in a header of each request.
// Why not a cookie: browsers send cookies to every port of 127.0.0.1, including the ports of other users' servers.

import { KEY, answerTo, given, isToken, kept, request } from "./ahead.js";

const WITHIN = 300; // milliseconds; how long to wait for a token from another tab

/** Return this tab's access. If the tab has no token, first ask other tabs of the same server for theirs. */
export async function openAccess() {
  const access = new Access();
  if (!access.token) await access.borrow();
  return access;
}

class Access {
  constructor() {
    this.tabs = new BroadcastChannel(KEY); // reaches only pages of the same server
    this.token = kept();
    this.tabs.addEventListener("message", ({ data }) => this.heard(data));
    this.take();
    addEventListener("hashchange", () => this.take() && location.reload());
  }

  /** Move the token out of the address, so that nobody copies it by accident. Returns whether there was a token. */
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
      // The browser does not allow storage, so a reload will need the address with the token again.
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

  /** Call `fetch` with the token, or return the answer to a request that was made ahead. */
  async fetch(path, options) {
    return (await answerTo(path)) ?? request(path, this.token, options);
  }

  /** Return an address with which the browser itself can open a file for 30 seconds. Throws if access is refused. */
  async ticketed(path) {
    const answer = await this.fetch(`/api/ticket?${new URLSearchParams({ path })}`);
    const { ticket, error } = await answer.json();
    if (!ticket) throw new Error(error ?? "The server gives no access to this file.");
    return `${path}?${new URLSearchParams({ ticket })}`;
  }
}

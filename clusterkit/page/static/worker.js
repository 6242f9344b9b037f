// The shared worker of all tabs of the page, which follows runs and logs for them. Its name is a secret of the tabs that
// know the token, so that a page of another server, which had the same port before, can't be in its place.

import { Hub } from "./hub.js";

const hub = new Hub();
let tabs = 0;

addEventListener("connect", ({ ports: [port] }) => {
  const ends = new Map();
  let there = true;
  const drop = () => {
    if (!there) return;
    there = false;
    for (const end of ends.values()) end();
    ends.clear();
    tabs -= 1;
    if (!tabs) hub.close(); // the worker may outlive its tabs, and the server counts the pages that are open
  };
  port.onmessage = ({ data: { token, lock, hurry, start, part, end, gone } }) => {
    if (token && hub.token !== token) {
      Object.assign(hub, { token, proved: false });
      hub.reopenSoon();
    }
    if (lock) {
      tabs += 1;
      navigator.locks.request(lock, drop); // granted once the tab is gone
      hub.reopenSoon();
    }
    if (hurry) hub.hurry();
    if (start) ends.set(start, hub.start(part, (told) => port.postMessage({ of: start, ...told })));
    if (gone) drop();
    if (end) {
      ends.get(end)?.();
      ends.delete(end);
    }
  };
});

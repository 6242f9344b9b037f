// The shared worker of all tabs of the page, which follows runs and logs for them. Its name is a secret of the tabs that
// know the token, so that a page of another server, which had the same port before, can't be in its place.

import { Hub } from "./hub.js";

const hub = new Hub();
const ports = new Set();
const PING_EVERY = 3000; // milliseconds; tabs answer at once, even in the background
const SILENT = 10000; // milliseconds; browsers may keep the worker of tabs that are gone, which then do not answer
let tabs = 0;
let answered = performance.now();

setInterval(() => {
  for (const port of ports) port.postMessage({ ping: true });
  if (performance.now() - answered > SILENT) hub.close();
}, PING_EVERY);

addEventListener("connect", ({ ports: [port] }) => {
  const ends = new Map();
  ports.add(port);
  let there = true;
  const drop = () => {
    if (!there) return;
    there = false;
    ports.delete(port);
    for (const end of ends.values()) end();
    ends.clear();
    tabs -= 1;
    if (!tabs) hub.close(); // the worker may outlive its tabs, and the server counts the pages that are open
  };
  port.onmessage = ({ data: { token, lock, hurry, start, part, end, gone } }) => {
    if (!there) return; // what a tab has sent may arrive once it is gone
    answered = performance.now();
    if (hub.closed) hub.reopenSoon();
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

// The shared worker of all tabs of the page, which follows runs and logs for them. Its name is a secret of the tabs that
// know the token, so that a page of another server, which had the same port before, can't be in its place.

import { Hub } from "./hub.js";

const hub = new Hub();

addEventListener("connect", ({ ports: [port] }) => {
  const ends = new Map();
  const drop = () => {
    for (const end of ends.values()) end();
    ends.clear();
  };
  port.onmessage = ({ data: { token, lock, hurry, start, part, end } }) => {
    if (token && hub.token !== token) {
      Object.assign(hub, { token, proved: false });
      hub.reopenSoon();
    }
    if (lock) navigator.locks.request(lock, drop); // granted once the tab is gone
    if (hurry) hub.hurry();
    if (start) ends.set(start, hub.start(part, (told) => port.postMessage({ of: start, ...told })));
    if (end) {
      ends.get(end)?.();
      ends.delete(end);
    }
  };
});

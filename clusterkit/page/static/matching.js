// Searches the lines of a report for regular expressions in a worker, since only a worker can be ended in the middle of a
// search: some expressions take years for a line.

const LIMIT = 2000; // milliseconds; a search that takes longer is ended
const LONGEST = 4096; // characters; only this much of the beginning of a line is searched, as a server does
/** The script of the worker: for each pattern that it gets, it answers with the numbers of the lines that match. */
const SCRIPT = `
let lines = [];
onmessage = ({ data }) => {
  if (data.lines) lines = data.lines;
  else {
    const expression = new RegExp(data.pattern);
    postMessage(lines.flatMap((line, number) => (expression.test(line) ? [number] : [])));
  }
};`;

/** The search took too long. `kind` is that of a request that a server refuses. */
class TooSlow extends Error {
  kind = "wrong";

  constructor() {
    super("Searching the lines for this regular expression takes too long. Try a simpler one.");
  }
}

export class Matcher {
  constructor(texts) {
    this.texts = texts.map((text) => (text ?? "").slice(0, LONGEST));
    this.known = new Map();
    this.last = Promise.resolve();
  }

  /** Return the set of the numbers of the lines that match. Throws SyntaxError, and an error if the search takes too long. */
  matches(pattern) {
    new RegExp(pattern); // throws if it is none
    if (!this.known.has(pattern)) {
      this.last = this.last.catch(() => null).then(() => this.search(pattern)); // one after the other
      this.known.set(pattern, this.last);
    }
    return this.known.get(pattern);
  }

  search(pattern) {
    const worker = (this.worker ??= this.start());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        worker.terminate();
        this.worker = null;
        reject(new TooSlow());
      }, LIMIT);
      worker.addEventListener("message", ({ data }) => {
        clearTimeout(timer);
        resolve(new Set(data));
      }, { once: true }); // prettier-ignore
      worker.postMessage({ pattern });
    });
  }

  start() {
    const address = URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" }));
    const worker = new Worker(address);
    worker.postMessage({ lines: this.texts });
    return worker;
  }
}

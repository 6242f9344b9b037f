// The data source of a report file: the document contains all data, and the data never changes.

import { Matcher } from "./matching.js";

const PAGE = 1000; // the default number of lines of an answer

/** Create the data source of a report. If the report contains several runs, `#run/ID` in the address selects one. */
export function embeddedSource(all) {
  const [, id] = location.hash.match(/^#run\/(.+)$/) ?? [];
  const data = (id && all.runs?.[decodeURIComponent(id)]) || (all.entities ? all : (Object.values(all.runs)[0] ?? all));
  addEventListener("hashchange", (event) => {
    if (/#run\//.test(event.oldURL + event.newURL)) location.reload();
  });
  const entities = data.entities ?? {};
  const campaign = "campaign" in entities;
  const lines = (data.logs ?? []).map((line, index) => ({ ...line, cursor: String(index) }));
  const matcher = new Matcher(lines.map((line) => line.text));
  return {
    live: false,
    made: (data.config ?? all.config)?.made, // the wall time at which the report was made
    home: all.home ?? (data === all ? null : { href: "#", text: "The campaign" }),
    hrefOf: (run) => (run in (all.runs ?? {}) ? `#run/${encodeURIComponent(run)}` : null),
    place: { page: campaign ? "campaign" : "run", id: entities.run?.id ?? entities.campaign?.id ?? "" },
    config: async () => ({ version: "", ...data.config, control: false }),
    watch(store, tell) {
      store.apply(entities, data.now ?? entities.run?.ended ?? 0, true);
      tell("embedded");
    },
    series: async (names) => Object.fromEntries(names.map((n) => [n, data.series?.[n]]).filter(([, s]) => s)),
    file: async (path) => {
      if (data.files?.[path] == null) throw new Error(`${path} is not in this report; it is in the run's directory.`);
      return data.files[path];
    },
    log: async (asked) => logOf(lines, asked, asked.regex ? await matcher.matches(asked.grep) : null),
  };
}

/** Answer a query for log lines as a server would. `matched` has the numbers of the lines that match a regular expression. */
export function logOf(lines, asked, matched = null) {
  const keep = filterOf(asked, matched);
  const limit = Number(asked.limit ?? PAGE);
  if (asked.before != null) return answer(lastOf(lines, Number(asked.before), keep, limit), lines, true);
  if (asked.from === "end") return answer(lastOf(lines, lines.length, keep, limit), lines, true);
  const begin = asked.at != null ? lines.findIndex((line) => line.t >= asked.at) : Number(asked.from ?? 0);
  const found = [];
  for (let i = begin < 0 ? lines.length : begin; i < lines.length && found.length < limit; i += 1) {
    if (keep(lines[i])) found.push(lines[i]);
  }
  if (!found.length && asked.at != null) return answer(lastOf(lines, lines.length, keep, limit), lines, true);
  return answer(found, lines);
}

function lastOf(lines, end, keep, limit) {
  const found = [];
  for (let i = end - 1; i >= 0 && found.length < limit; i -= 1) if (keep(lines[i])) found.unshift(lines[i]);
  return found;
}

function answer(found, lines, back = false) {
  const first = found.length ? Number(found[0].cursor) : 0;
  const last = found.length ? Number(found.at(-1).cursor) : lines.length;
  return {
    lines: found,
    previous: String(first),
    next: String(last + 1),
    skipped: 0,
    done: back ? first === 0 : last + 1 >= lines.length,
  };
}

function filterOf({ task, attempt, grep }, matched) {
  const wanted = grep?.toLowerCase();
  return (line) =>
    (line.skipped != null && !grep && (!task || !line.task || line.task === task)) ||
    (line.skipped == null &&
      (!task || line.task === task) &&
      (!attempt || line.attempt === Number(attempt)) &&
      (!grep || (matched ? matched.has(Number(line.cursor)) : line.text.toLowerCase().includes(wanted))));
}

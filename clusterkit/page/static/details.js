// The less common sections of a run's page: startup, network, stalls, and the complete job.

import { copyButton, fill, h, hueOf, keyed, mark, say, section, taskName } from "./dom.js";
import { byTask, bytes, clock, plural, seconds, share } from "./format.js";
import { lazily } from "./store.js";

/** The phases of a startup, and the names of their colors in the palette. */
const PHASES = {
  waiting: "raised",
  process: "edge",
  import: "bar-start",
  port: "bar-save",
  connect: "bar-compile",
  prepare: "bar-wait",
  "first step": "bar-ok",
};

function nameOf(phase) {
  return phase.text || phase.kind;
}

function colorOf(name) {
  return `var(--${PHASES[name] ?? "faint"})`;
}

/** Shows the phases of each task's first start, and the longest chain of phases up to the first step. */
export class Startup {
  constructor(store) {
    this.store = store;
    const made = section("Start-up", "startup");
    this.body = h("div", { class: "bars", tabindex: "0", role: "group", "aria-label": "Start-up of each task" });
    this.legend = h("ul", { class: "key" });
    this.empty = h("p", { class: "empty" }, "It is shown once the first attempts are under way.");
    this.root = made.root;
    this.root.append(this.body, this.legend, this.empty);
    const update = lazily(() => this.update());
    store.on(["startup"], update);
    store.onValue(["task", "run"], () => `${store.colors()} ${store.isLive()}`, update);
  }

  update() {
    const rows = this.store.all("startup").sort((a, b) => byTask(a.task, b.task));
    this.empty.hidden = rows.length > 0;
    this.root.hidden = !rows.length && this.store.get("run")?.phase === "over";
    const now = this.store.now();
    const end = Math.max(0.1, ...rows.flatMap((row) => row.phases.map((p) => p.end ?? now)));
    const there = new Set(rows.flatMap((row) => row.phases.map(nameOf)));
    const names = [...Object.keys(PHASES).filter((name) => there.has(name)), ...[...there].filter((name) => !(name in PHASES))];
    const key = JSON.stringify([rows, rows.map((row) => this.colorOf(row.task))]);
    if (key === this.shown) return;
    this.shown = key;
    fill(this.body, rows.map((row) => this.bar(row, end, now)));
    const entries = names.map((name) => h("li", null, h("i", { style: { background: colorOf(name) } }), name));
    const critical = rows.some((row) => row.critical.some(Boolean));
    fill(this.legend, entries, critical ? h("li", null, h("i", { class: "critical" }), "the longest chain to the first step") : null);
  }

  colorOf(task) {
    return this.store.get(`task/${task}`)?.color ?? 0;
  }

  bar(row, end, now) {
    const parts = row.phases.map((phase, i) => {
      const long = (phase.end ?? now) - phase.begin;
      const title = `${nameOf(phase)}: ${seconds(long)}${row.critical[i] ? ", on the longest chain" : ""}`;
      return h("i", {
        class: row.critical[i] ? "critical" : null,
        title,
        style: { left: `${(phase.begin / end) * 100}%`, width: `${(long / end) * 100}%`, background: colorOf(nameOf(phase)) },
      });
    });
    const spoken = row.phases.map((p, i) => `${nameOf(p)} ${seconds((p.end ?? now) - p.begin)}${row.critical[i] ? " (on the longest chain)" : ""}`);
    const total = row.phases.length ? (row.phases.at(-1).end ?? now) : 0;
    return h(
      "div",
      { role: "img", "aria-label": `${row.task}: ${spoken.join(", ")}` },
      taskName(row.task, this.colorOf(row.task)),
      h("div", { class: "track" }, parts),
      h("b", null, seconds(total)),
    );
  }
}

/** Shows the virtual network as a table, with a row for each sender and a column for each receiver. */
export class Network {
  constructor(store, actions) {
    Object.assign(this, { store, actions });
    this.note = h("span", { class: "note" });
    const made = section("Network", "network", this.note);
    this.table = h("table", { class: "matrix" });
    this.root = made.root;
    this.root.append(h("div", { class: "wide-table", tabindex: "0", role: "group", "aria-label": "Network between the tasks" }, this.table));
    const update = lazily(() => this.update());
    store.on(["cell"], update);
    store.onValue(["task", "run"], () => `${store.colors()} ${store.isLive()}`, update);
    // If the texts don't fit, cells show only colors, and their texts appear when the pointer is over them.
    new ResizeObserver(() => this.table.classList.toggle("compact", this.table.rows.length * 90 > this.root.clientWidth)).observe(this.root);
  }

  update() {
    const cells = new Map(this.store.all("cell").map((cell) => [`${cell.source} ${cell.target}`, cell]));
    this.root.hidden = !cells.size;
    const live = this.store.isLive();
    const tasks = [...new Set([...cells.values()].flatMap((c) => [c.source, c.target]))].sort(byTask);
    const key = JSON.stringify([[...cells.values()], live, this.store.colors()]);
    if (key === this.shown) return;
    this.shown = key;
    const open = [...cells.values()].every((cell) => !wordsOf(cell).length);
    say(this.note, `from the row's task to the column's${open ? "; all connections are open" : ""}`);
    const most = Math.max(1, ...[...cells.values()].map((c) => c.bytes ?? 0));
    const name = (task, scope) => h("th", { scope, class: hueOf(this.store.get(`task/${task}`)?.color) }, task);
    const focused = this.table.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    fill(
      this.table,
      h("thead", null, h("tr", null, h("td"), tasks.map((task) => name(task, "col")))),
      h("tbody", null, tasks.map((a) => h("tr", null, name(a, "row"), tasks.map((b) => this.cell(cells.get(`${a} ${b}`), most, live))))),
    );
    if (focused) [...this.table.querySelectorAll("button")].find((one) => one.ariaLabel?.startsWith(focused.split(":").slice(0, 3).join(":")))?.focus();
  }

  cell(cell, most, live) {
    if (!cell) return h("td", { class: "none" });
    const words = wordsOf(cell);
    const acts = this.actions.possible && live;
    const texts = [cell.cut ? "cut" : cell.bytes == null ? (words[0] ?? "open") : bytes(cell.bytes), words.filter((w) => w !== "cut").slice(cell.bytes == null ? 1 : 0).join(" · ")];
    const label = `${cell.source} to ${cell.target}: ${texts.join(" ").trim()}`;
    const content = [h("b", null, texts[0]), h("small", null, texts[1])];
    const strength = cell.bytes ? 6 + 26 * (Math.log1p(cell.bytes) / Math.log1p(most)) : 0;
    const inside = acts ? h("button", { type: "button", "aria-label": `${label}. ${cell.faults.length ? "Heal" : "Cut"}`, onclick: () => this.act(cell) }, content) : h("div", { title: label }, content);
    const td = h("td", { class: cell.cut ? "cut" : words.length ? "impaired" : null }, inside);
    if (!cell.cut) td.style.setProperty("background", `color-mix(in srgb, var(--run) ${strength}%, var(--panel))`);
    return td;
  }

  act(cell) {
    if (cell.faults.length) {
      const text = `Fault ${cell.faults.join(" and ")} acts between ${cell.source} and ${cell.target}. All faults of the run that are still open are healed.`;
      return this.actions.ask("heal", [], { text });
    }
    const fault = `partition ${cell.source} | ${cell.target}`;
    return this.actions.ask("fault", [], { fault, text: `No packet passes between ${cell.source} and ${cell.target} until the fault is healed.` });
  }
}

function wordsOf(cell) {
  const words = [];
  if (cell.cut) words.push("cut");
  if (cell.delay) words.push(`+${seconds(cell.delay)}`);
  if (cell.loss) words.push(`${share(cell.loss)} lost`);
  if (cell.rate) words.push(`${bytes(cell.rate)}/s`);
  return words;
}

/** Shows the warnings of stalls, and what each task was doing then. */
export class Stalls {
  constructor(store, source) {
    Object.assign(this, { store, source });
    const made = section("Stalls", "stalls");
    this.list = h("div");
    this.root = made.root;
    this.root.append(this.list);
    const update = lazily(() => this.update());
    store.on(["stall"], update);
  }

  update() {
    const stalls = this.store.entries("stall").sort(([, a], [, b]) => a.at - b.at);
    this.root.hidden = !stalls.length;
    keyed(this.list, stalls, ([id]) => id, () => h("div", { class: "stall" }), (child, [, stall]) => {
      const key = JSON.stringify(stall);
      if (child.shown !== key) fill(child, this.parts(stall));
      child.shown = key;
    });
  }

  parts(stall) {
    const rows = stall.tasks.map(([task, verdict]) => {
      return h("li", null, taskName(task, this.store.get(`task/${task}`)?.color), h("span", null, verdict));
    });
    return [h("p", null, h("b", null, clock(stall.since)), `, noticed at ${clock(stall.at)}: ${stall.text}`), h("ul", null, rows), stall.report ? this.stacks(stall.report) : null];
  }

  /** Show a part that fetches the stacks only when the user opens it. */
  stacks(name) {
    const text = h("pre", { tabindex: "0", "aria-label": "Stacks of all tasks" });
    const open = async () => {
      if (!details.open || text.textContent) return;
      text.textContent = await this.source.file(`stacks/${name}`).catch((error) => error.message);
    };
    const details = h("details", { ontoggle: open }, h("summary", null, "Stacks of all tasks"), this.opener(`stacks/${name}`, text), text);
    return details;
  }

  /** Return a button that opens a file in a new tab. A report file has no such buttons. */
  opener(path, problem) {
    if (!this.source.addressOf) return null;
    const open = async () => {
      try {
        window.open(await this.source.addressOf(path), "_blank", "noopener");
      } catch (error) {
        problem.textContent = error.message;
      }
    };
    return h("button", { class: "small", type: "button", onclick: open }, "Open in a tab");
  }
}

/** Shows the complete job as a job file, and the TF_CONFIG of each task. */
export class Job {
  constructor(store) {
    this.store = store;
    const made = section("Job", "job");
    this.file = h("pre", { tabindex: "0", "aria-label": "The resolved job as a job file" });
    this.configs = h("div", { class: "configs" });
    this.command = h("code");
    this.root = made.root;
    const command = h("p", { class: "command" }, this.command, copyButton(() => this.command.textContent));
    this.root.append(command, h("div", { class: "two" }, h("div", null, h("h3", null, "Job file"), this.file), h("div", null, h("h3", null, "TF_CONFIG"), this.configs)));
    const update = lazily(() => this.update());
    store.on(["job"], update);
    store.onValue(["task", "run"], () => `${store.colors()} ${store.get("run")?.command}`, update);
  }

  update() {
    const job = this.store.get("job");
    const run = this.store.get("run");
    this.root.hidden = !job;
    if (!job || !run) return;
    const tasks = Object.keys(job.tf_configs).sort(byTask);
    const key = JSON.stringify([job, run.command, tasks.map((task) => this.store.get(`task/${task}`)?.color)]);
    if (key === this.shown) return;
    this.shown = key;
    this.command.textContent = run.command;
    this.file.textContent = job.file;
    const one = (task) => {
      const color = this.store.get(`task/${task}`)?.color ?? 0;
      return h("details", null, h("summary", null, taskName(task, color)), h("pre", { tabindex: "0" }, pretty(job.tf_configs[task])));
    };
    fill(this.configs, tasks.map(one), tasks.length ? null : h("p", { class: "empty" }, "No task has a TF_CONFIG: the job runs in one process."));
    mark(this.configs, "aria-label", plural(tasks.length, "TF_CONFIG"));
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

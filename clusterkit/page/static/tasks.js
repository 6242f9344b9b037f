// The table of tasks: their state, CPU, memory and reported metrics, with buttons for actions.

import { fill, h, hueOf, keyed, mark, say, tell } from "./dom.js";
import { byTask, bytes, count, metric, speed } from "./format.js";

const MORE = 3; // the maximum number of metrics in a task's second row
const HEADS = ["task", "state", "step", "CPU", "memory"];

export class Tasks {
  constructor(store, actions, openLog) {
    Object.assign(this, { store, actions, openLog });
    this.empty = h("p", { class: "empty" }, "No task has been started yet.");
    const heads = HEADS.map((name) => h("th", { scope: "col" }, name));
    this.table = h("table", null, h("thead", null, h("tr", null, heads)));
    this.note = h("p", { class: "note" });
    this.tools = h("div", { class: "tools" });
    this.root = h(
      "section",
      { class: "tasks", "aria-labelledby": "h-tasks", tabindex: "-1" },
      h("div", { class: "head" }, h("h2", { id: "h-tasks" }, "Tasks"), this.tools),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": "h-tasks" }, this.table, this.empty),
      this.note,
    );
    store.on(["task", "run", "attempt"], () => this.update());
  }

  update() {
    const run = this.store.get("run");
    const live = Boolean(run) && this.store.isLive();
    const rows = this.store.all("task").sort((a, b) => byTask(a.task, b.task));
    this.empty.hidden = rows.length > 0;
    const [head] = this.table.children;
    const all = [{ task: "" }, ...rows];
    keyed(this.table, all, (row) => row.task, (row) => (row.task ? this.make(row) : head), (body, row) => row.task && this.show(body, row, live));
    if (this.shownLive === live || !run) return;
    this.shownLive = live;
    this.root.classList.toggle("over", !live);
    fill(this.tools, live ? this.actions.forRun() : null);
    tell(this.note, live ? this.actions.absent : this.store.isOver() ? "" : "These are the last known states.");
    this.note.hidden = !this.note.textContent;
  }

  /** Create the two rows of a task: its state, and below it the reported metrics and the buttons. */
  make(row) {
    const open = () => this.openLog({ task: row.task });
    const name = h("button", { class: `link ${hueOf(row.color)}`, type: "button", title: `Show the log of ${row.task}`, onclick: open }, row.task);
    const parts = { state: h("td", { class: "state" }), step: h("td"), cpu: h("td"), memory: h("td"), more: h("span", { class: "more" }) };
    const acts = this.actions.possible ? this.actions.forTask(row.task) : null;
    const second = h("tr", { class: "second" }, h("td", { colspan: HEADS.length }, h("div", null, parts.more, acts?.root)));
    const body = h("tbody", null, h("tr", null, h("th", { scope: "row" }, name), parts.state, parts.step, parts.cpu, parts.memory), second);
    return Object.assign(body, { parts, acts });
  }

  show(body, row, live) {
    const { state, step, cpu, memory, more } = body.parts;
    const word = stateOf(row, this.store.get(`attempt/${row.task}/${row.attempt}`));
    say(state, row.attempt > 1 ? `${word} · attempt ${row.attempt}` : word);
    mark(state, "title", whereOf(row));
    body.className = live ? "live" : "";
    mark(body, "data-task", row.task);
    mark(body, "data-state", row.state.split(/[ ,]/)[0]);
    say(step, row.step == null && !row.steps ? "" : count(row.step));
    step.className = row.old ? "old" : "";
    mark(step, "title", row.old ? "from the previous attempt" : row.speed == null ? null : `${speed(row.speed)} steps/s`);
    say(cpu, row.cpu != null ? `${Math.round(row.cpu)} %` : row.pid ? "–" : "");
    say(memory, row.memory != null || row.pid ? bytes(row.memory) : "");
    for (const cell of [cpu, memory]) mark(cell, "title", cell.textContent.length > 1 ? null : row.pid ? "not measured yet" : "no process");
    const known = [row.note, ...row.faults.map((fault) => `fault: ${fault}`)].filter(Boolean).join(" · ");
    say(more, known || metricsOf(row) || (live ? withoutSteps(row) : ""));
    mark(more, "title", more.textContent || null);
    mark(more, "data-tone", known ? "wait" : null);
    body.acts?.update(row, live);
  }
}

const END_WORDS = { success: "succeeded", failed: "failed", fault: "failed", collateral: "failed", ended: "ended" };
const DOES = { start: "starting", stalled: "stalled" };

/** Return the state of a task; if the newest attempt is more specific, what the lanes show of that attempt. */
function stateOf({ state }, attempt) {
  if (state === "down") return END_WORDS[attempt?.how] ?? state;
  return (state === "running" && DOES[attempt?.segments.at(-1)?.kind]) || state;
}

function whereOf(row) {
  const known = [`attempt ${row.attempt}`, row.pid && `pid ${row.pid}`, row.host && `on ${row.host}`, row.endpoint];
  return known.filter(Boolean).join(", ");
}

function metricsOf(row) {
  const known = Object.entries(row.metrics ?? {}).slice(0, MORE).map(([name, value]) => `${name} ${metric(value)}`);
  return known.join("   ") + (row.old && known.length ? " before the restart" : "");
}

/** Return the reason why a task's row has no step. */
function withoutSteps(row) {
  if (row.steps || row.step != null || row.type === "evaluator") return "";
  return row.type === "worker" ? "the coordinator reports its steps" : "reports no steps: it holds variables";
}

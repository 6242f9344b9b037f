// The actions that control a run: each is confirmed in a dialog, and its result or error is shown as a sentence.

import { fill, h, mark, say } from "./dom.js";
import { plural } from "./format.js";

const ABSENT = "To act on the run from here, start the page with `clusterkit dashboard --control`.";
const SIGNALS = [[9, "SIGKILL"], [15, "SIGTERM"], [2, "SIGINT"], [10, "SIGUSR1"], [6, "SIGABRT"]]; // prettier-ignore

/** Maps each verb to its texts; `done` is the label of the button that confirms the action. */
const VERBS = {
  kill: {
    title: (who) => `Kill ${who}?`,
    text: "The signal goes to every process of the task. The run handles the outcome as any other failure.",
    done: "Kill",
    signal: true,
  },
  pause: {
    title: (who) => `Pause ${who}?`,
    text: "The task is stopped with SIGSTOP: it keeps its memory and connections, and makes no progress until it continues.",
    done: "Pause",
  },
  unpause: { title: (who) => `Let ${who} continue?`, text: "A task that a fault has stopped, too, continues when that fault is over.", done: "Continue" },
  restart: {
    title: (who) => `Restart ${who}?`,
    text: "It restarts with the tasks in its restart scope. This does not count against the restart budget.",
    done: "Restart",
  },
  stacks: { title: (who) => `Take the stacks of ${who}?`, text: "Each of its threads says where it is. The task goes on.", done: "Take stacks" },
  fault: {
    title: () => "Inject a fault",
    text: "An action, its target, how long it lasts and when it takes effect. Without a moment, it takes effect at once.",
    done: "Inject",
    field: { name: "fault", label: "Fault", value: "", placeholder: "kill worker:1 @ step=100" },
    examples: ["kill worker:1", "stop worker:0 for=5s", "slow worker:1 share=20% for=30s", "kill ps @ checkpoint", "partition worker:0 | ps:0 for=5s"],
  },
  heal: { title: () => "Heal all faults?", text: "Every fault that is still open ends now.", done: "Heal" },
  profile: {
    title: (who) => `Profile ${who || "the training tasks"}?`,
    text: "TensorFlow's profiler records the next seconds; TensorBoard shows them. Training is slower meanwhile.",
    done: "Profile",
    field: { name: "seconds", label: "Seconds", value: "3", type: "number", min: "1", max: "120" },
  },
  remove: {
    title: (who) => `Remove ${who}?`,
    text: "Journal, logs, checkpoints and reports are deleted from the disk, as `clusterkit rm` does. A run that is live is refused.",
    done: "Remove",
    bad: true,
  },
  down: { title: () => "End the run?", text: "Every task gets SIGTERM, then SIGKILL after the grace period. The run's files stay.", done: "End the run", bad: true },
};

export class Actions {
  constructor(source, store, control) {
    Object.assign(this, { source, store });
    this.possible = source.live && control;
    this.absent = source.live && !control ? ABSENT : "";
    this.notices = h("div", { class: "notices", role: "region", "aria-label": "Results of actions" });
    document.body.append(this.notices);
  }

  /** Return the buttons for the whole run. */
  forRun() {
    if (!this.possible) return [];
    const button = (verb, name, bad) => h("button", { class: bad ? "small bad" : "small", type: "button", onclick: () => this.ask(verb, []) }, name);
    return [button("fault", "Fault …"), button("heal", "Heal all …"), button("profile", "Profile …"), button("down", "End the run …", true)];
  }

  /** Return the buttons of a task, as {root, update(row, live)}. */
  forTask(task) {
    const make = (verb, name) => {
      const label = `${name} ${task}`;
      return h("button", { class: "act", type: "button", "aria-label": label, onclick: () => this.ask(verb, [task]) }, name);
    };
    const buttons = { kill: make("kill", "kill"), pause: make("pause", "pause"), unpause: make("unpause", "continue"), restart: make("restart", "restart"), stacks: make("stacks", "stacks") };
    return {
      root: h("div", null, Object.values(buttons)),
      update(row, live) {
        this.root.hidden = !live;
        const up = live && /^(running|paused|stopping|starting)/.test(row.state);
        const paused = /paused/.test(row.state);
        for (const button of Object.values(buttons)) mark(button, "disabled", !up);
        mark(buttons.restart, "disabled", !live);
        buttons.pause.hidden = paused;
        buttons.unpause.hidden = !paused;
      },
    };
  }

  /** Ask for confirmation, then carry out the action. `preset` is a suggested fault with a text about the fault. */
  ask(verb, tasks, preset = {}) {
    const words = VERBS[verb];
    const error = h("p", { class: "error", role: "alert" });
    const form = h("form", { method: "dialog" });
    const cancel = h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel");
    const confirm = h("button", { type: "submit", class: words.bad || verb === "kill" ? "strong bad" : "strong" }, words.done);
    const dialog = h("dialog", { class: "confirm", "aria-labelledby": "dialog-title" }, form);
    const text = preset.text ?? words.text;
    const fields = preset.fault ? h("p", null, h("code", null, preset.fault)) : this.fields(words);
    const title = h("h2", { id: "dialog-title" }, words.title(tasks.join(", ")));
    fill(form, title, h("p", null, text), fields, error, h("div", { class: "buttons" }, cancel, confirm));
    dialog.addEventListener("close", () => dialog.remove());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const body = { verb, tasks, ...readFields(form), ...withoutText(preset) };
      confirm.disabled = true;
      say(error, "");
      try {
        const answer = verb === "remove" ? await this.remove(tasks) : await this.source.act(body);
        dialog.close();
        this.notice(answer || `${words.done}: done.`);
      } catch (problem) {
        say(error, problem.message);
        confirm.disabled = false;
      }
    });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input, select") ?? (words.bad ? cancel : confirm)).focus();
  }

  /** Remove these runs; stop at the first that can't be removed. */
  async remove(runs) {
    for (const run of runs) await this.source.act({ verb: "remove" }, run);
    return `${plural(runs.length, "run")} removed.`;
  }

  fields(words) {
    if (words.signal) {
      const options = SIGNALS.map(([number, name]) => h("option", { value: number }, name));
      return h("label", null, "Signal", h("select", { name: "signal" }, options));
    }
    if (!words.field) return null;
    const { label, ...attributes } = words.field;
    const input = h("input", { ...attributes, required: true, autocomplete: "off", spellcheck: "false" });
    const fill = (example) => () => {
      input.value = example;
      input.focus();
    };
    const examples = words.examples?.map((e) => h("button", { type: "button", class: "small mono", onclick: fill(e) }, e));
    return [h("label", null, label, input), examples ? h("div", { class: "examples" }, examples) : null].filter(Boolean);
  }

  /** Show a result until the user dismisses it; a short result disappears after a while. */
  notice(text, tone = "") {
    const long = text.includes("\n");
    const close = () => one.remove();
    const one = h(
      "div",
      { class: `notice ${tone}`, role: "status" },
      long ? h("pre", { tabindex: "0" }, text) : h("p", null, text),
      h("button", { type: "button", class: "small", "aria-label": "Dismiss", onclick: close }, "✕"),
    );
    this.notices.append(one);
    while (this.notices.children.length > 4) this.notices.firstElementChild.remove();
    if (!long) setTimeout(close, 8000);
  }
}

function readFields(form) {
  const found = {};
  for (const [name, value] of new FormData(form)) found[name] = name === "fault" ? value.trim() : Number(value);
  return found;
}

function withoutText({ text, ...rest }) {
  return rest;
}

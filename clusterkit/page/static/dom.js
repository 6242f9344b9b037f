// Elements of the page, made without markup: text is only ever set as text.

/** An element. `attributes`: `class`, any attribute, `onclick` and the like, `style` as a map of properties. */
export function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [p, v] of Object.entries(value)) element.style.setProperty(p, v);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat()) {
    if (child != null && child !== false) element.append(child);
  }
}

/** Replace what is in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Set a text, where it differs: an unchanged node keeps a selection in it. */
export function say(element, text) {
  const value = text == null ? "" : String(text);
  if (element.textContent !== value) element.textContent = value;
}

/** Set a text, where it differs. What stands between backticks is code. */
export function tell(element, text) {
  const parts = String(text ?? "").split(/`([^`]+)`/);
  if (element.textContent !== parts.join("")) fill(element, ...parts.map((part, index) => (index % 2 ? h("code", null, part) : part)));
}

/** Set or remove an attribute, where it differs. */
export function mark(element, name, value) {
  if (value == null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value === true ? "" : value)) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Keep one child for each item, in their order: `make(item)` returns an element, `update(element, item)` changes it. */
export function keyed(parent, items, keyOf, make, update) {
  const known = parent.keyed ?? (parent.keyed = new Map());
  const wanted = new Set();
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    wanted.add(key);
    let child = known.get(key);
    if (!child) known.set(key, (child = make(item)));
    update?.(child, item);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
  for (const [key, child] of known) {
    if (!wanted.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
}

/** A section with its heading. `tools` stand right of it. */
export function section(title, name, ...tools) {
  const id = `h-${name}`;
  const heading = h("h2", { id }, title);
  const head = h("div", { class: "head" }, heading, h("div", { class: "tools" }, tools));
  const root = h("section", { class: name, "aria-labelledby": id, tabindex: "-1" }, head);
  return { root, heading, head };
}

/** A button that copies a text, and says so. */
export function copyButton(text, what = "Copy") {
  const button = h("button", { class: "small", type: "button", onclick: copy }, what);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it, and press Ctrl+C";
    }
    setTimeout(() => (button.textContent = what), 1500);
  }
  return button;
}

/** Save a text as a file, as a download. */
export function save(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** A button that is pressed or not: `use(pressed)` hears of it. */
export function toggle(text, use) {
  const pressed = ({ currentTarget: button }) => {
    mark(button, "aria-pressed", String(button.ariaPressed !== "true"));
    use(button.ariaPressed === "true");
  };
  return h("button", { class: "chip", type: "button", "aria-pressed": "false", onclick: pressed }, text);
}

/** The classes of a task's name: eight colors, and beyond them a line below, in the style of its curve. */
export function hueOf(color) {
  return `task c${(color ?? 0) % 8} d${((color ?? 0) >> 3) % DASHES.length}`;
}

/** The dashes of the tasks' curves: of the first eight, the next eight … */
export const DASHES = [[], [8, 3], [2, 3]];

/** A task's name in its color. */
export function taskName(task, color) {
  return h("span", { class: hueOf(color) }, task);
}

// Creates and changes elements of the page. Never parses markup, so text from tasks is always shown as plain text.

/** Create an element. `attributes` may include event handlers such as `onclick`, and `style` as a map of properties. */
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

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Set the text of an element, but only if it differs, so that the user's selection in an unchanged text is kept. */
export function say(element, text) {
  const value = text == null ? "" : String(text);
  if (element.textContent !== value) element.textContent = value;
}

/** Set the text of an element if it differs. Parts between backticks are shown as code. */
export function tell(element, text) {
  const parts = String(text ?? "").split(/`([^`]+)`/);
  if (element.textContent !== parts.join("")) fill(element, ...parts.map((part, index) => (index % 2 ? h("code", null, part) : part)));
}

/** Set or remove an attribute if its value differs. */
export function mark(element, name, value) {
  if (value == null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value === true ? "" : value)) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Keep one child per item, in the order of the items. `make(item)` creates a child, `update(element, item)` updates it. */
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

/** Create a section with a heading; `tools` are to the right of the heading. */
export function section(title, name, ...tools) {
  const id = `h-${name}`;
  const heading = h("h2", { id }, title);
  const head = h("div", { class: "head" }, heading, h("div", { class: "tools" }, tools));
  const root = h("section", { class: name, "aria-labelledby": id, tabindex: "-1" }, head);
  return { root, heading, head };
}

/** Create a button that copies a text and then confirms this in its label. */
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

/** Let the browser download a text as a file. */
export function save(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** Create a toggle button; each click calls `use(pressed)`. */
export function toggle(text, use) {
  const pressed = ({ currentTarget: button }) => {
    mark(button, "aria-pressed", String(button.ariaPressed !== "true"));
    use(button.ariaPressed === "true");
  };
  return h("button", { class: "chip", type: "button", "aria-pressed": "false", onclick: pressed }, text);
}

/** Return the CSS classes of a task's name: one of eight colors, and an underline in the style of the task's curve. */
export function hueOf(color) {
  return `task c${(color ?? 0) % 8} d${((color ?? 0) >> 3) % DASHES.length}`;
}

/** The line styles of curves: for the first eight tasks, for the next eight tasks, and so on. */
export const DASHES = [[], [8, 3], [2, 3]];

/** Create an element with a task's name in the task's color. */
export function taskName(task, color) {
  return h("span", { class: hueOf(color) }, task);
}

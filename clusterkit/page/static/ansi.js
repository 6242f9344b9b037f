// Splits a line of a task's output into pieces of plain text with CSS classes for their colors. Markup and control
// sequences in the output have no effect.

const SEQUENCE = /\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]?/g;
// Control characters, and characters that change the direction of text.
const UNSEEN = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;
export const LONGEST = 4000; // the maximum number of characters of a line that are shown

const LEVELS = [0, 95, 135, 175, 215, 255];
const BASIC = [
  [0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229],
  [127, 127, 127], [255, 0, 0], [0, 255, 0], [255, 255, 0], [92, 92, 255], [255, 0, 255], [0, 255, 255], [255, 255, 255],
]; // prettier-ignore

/** Split a line into [{text, classes}]; the classes are defined in sections.css. */
export function pieces(line) {
  const found = [];
  const style = { fg: null, bg: null, set: new Set() };
  let from = 0;
  let room = LONGEST;
  const put = (raw) => {
    const text = visible(raw.slice(0, room));
    room -= text.length;
    if (!text) return;
    const classes = classesOf(style);
    if (found.length && found.at(-1).classes === classes) found.at(-1).text += text;
    else found.push({ text, classes });
  };
  if (!line.includes("\x1b")) put(line);
  else {
    for (const match of line.matchAll(SEQUENCE)) {
      if (match.index > from) put(line.slice(from, match.index));
      if (match[1] !== undefined) apply(style, match[1]);
      from = match.index + match[0].length;
      if (room <= 0) break;
    }
    if (room > 0) put(line.slice(from));
  }
  if (room <= 0 && line.length > LONGEST) {
    found.push({ text: ` … (${(line.length - LONGEST).toLocaleString("en-US")} more characters)`, classes: "dim" });
  }
  return found;
}

/** Return the text without colors and control sequences, for searching and copying. */
export function plain(line) {
  return line.includes("\x1b") ? visible(line.replace(SEQUENCE, "")) : visible(line);
}

function visible(text) {
  return text.replace(UNSEEN, (c) => {
    const code = c.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? "␡" : "�";
  });
}

function classesOf({ fg, bg, set }) {
  const names = [...set];
  if (fg != null) names.push(`f${fg}`);
  if (bg != null) names.push(`b${bg}`);
  return names.join(" ");
}

const ON = { 1: "bold", 2: "dim", 3: "italic", 4: "under", 7: "inverse", 9: "struck" };
const OFF = { 22: ["bold", "dim"], 23: ["italic"], 24: ["under"], 27: ["inverse"], 29: ["struck"] };

function apply(style, text) {
  // `38:2::R:G:B` has a field for a color space; `38;2;R;G;B` does not.
  const codes = text.replace(/\b([34]8:2):[0-9]*:(?=[0-9]*:[0-9]*:)/g, "$1:").split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; i += 1) {
    const code = codes[i];
    if (code === 0) Object.assign(style, { fg: null, bg: null, set: new Set() });
    else if (ON[code]) style.set.add(ON[code]);
    else if (OFF[code]) OFF[code].forEach((name) => style.set.delete(name));
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 90 && code <= 97) style.fg = code - 82;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 100 && code <= 107) style.bg = code - 92;
    else if (code === 39) style.fg = null;
    else if (code === 49) style.bg = null;
    else if (code === 38 || code === 48) {
      const [color, used] = extended(codes.slice(i + 1));
      style[code === 38 ? "fg" : "bg"] = color;
      i += used;
    }
  }
}

/** Return the nearest of the sixteen basic colors, which are readable on light and dark backgrounds. */
function extended(codes) {
  if (codes[0] === 5) return [indexed(codes[1]), 2];
  if (codes[0] === 2) return [nearest(codes.slice(1, 4)), 4];
  return [null, codes.length];
}

function indexed(n) {
  if (!(n >= 0 && n <= 255)) return null;
  if (n < 16) return n;
  if (n >= 232) return nearest(Array(3).fill(8 + (n - 232) * 10));
  const c = n - 16;
  return nearest([LEVELS[Math.floor(c / 36)], LEVELS[Math.floor(c / 6) % 6], LEVELS[c % 6]]);
}

function nearest(rgb) {
  if (rgb.length < 3 || rgb.some((n) => !(n >= 0 && n <= 255))) return null;
  let best = 0;
  let least = Infinity;
  BASIC.forEach((basic, index) => {
    const distance = basic.reduce((sum, value, i) => sum + (value - rgb[i]) ** 2, 0);
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

// Draws a distribution: a dot for each value, a box from the first to the third quartile, and a line at the median.

import { h } from "./dom.js";

const SPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [260, 24];

export function strip(values, longest, label) {
  const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label });
  const x = (value) => 4 + (value / longest) * (WIDTH - 8);
  svg.append(make("line", { x1: 4, x2: WIDTH - 4, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "base" }));
  if (!values.length) return svg;
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length > 3) {
    const [low, high] = [quantile(sorted, 0.25), quantile(sorted, 0.75)];
    svg.append(make("rect", { x: x(low), y: 5, width: Math.max(x(high) - x(low), 1), height: HEIGHT - 10, rx: 2, class: "box" }));
  }
  for (const value of sorted) svg.append(make("circle", { cx: x(value), cy: HEIGHT / 2, r: 3, class: "dot" }));
  const median = x(quantile(sorted, 0.5));
  svg.append(make("line", { x1: median, x2: median, y1: 3, y2: HEIGHT - 3, class: "median" }));
  return h("span", { title: label }, svg);
}

export function quantile(sorted, share) {
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + ((sorted[low + 1] ?? sorted[low]) - sorted[low]) * (at - low);
}

function make(name, attributes) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

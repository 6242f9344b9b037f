// The time axis that lanes and curves share: the shown range, the moment under the pointer, and folded idle gaps.
//
// `t` is a time in seconds since the run began. `u` is the same time on an axis on which each idle gap is shortened; all
// drawing uses `u`.

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const SHORTEST = 0.05; // seconds; the minimum range that can be shown

export class Timeline {
  constructor() {
    this.wants = [];
    this.end = 1;
    this.gaps = [];
    this.folds = true;
    this.range = null; // the range [u, u] that the user has zoomed to; null if everything is shown
    this.cursor = null; // the time t under the pointer
    this.chosen = null; // the time t of the moment whose story is shown
  }

  /** Call `update(what)` on each change; `what` is `view`, `cursor` or `chosen`. */
  on(update) {
    this.wants.push(update);
  }

  tell(what) {
    for (const update of this.wants) update(what);
  }

  /** Set the current end of the run, and the gaps in which nothing happens. */
  extend(end, gaps) {
    this.end = Math.max(end, 1);
    this.idle = gaps;
    this.fold(this.folds);
  }

  fold(folds) {
    this.folds = folds;
    const shown = Math.max(this.end * 0.012, 0.2);
    let saved = 0;
    this.gaps = (folds ? (this.idle ?? []) : []).map(([begin, end]) => {
      const gap = { begin, end, u: begin - saved, shown: Math.min(shown, end - begin) };
      saved += end - begin - gap.shown;
      return gap;
    });
    this.length = this.end - saved;
    if (this.range && this.range[1] > this.length) {
      const width = Math.min(this.range[1] - this.range[0], this.length);
      this.range = [this.length - width, this.length];
    }
    this.tell("view");
  }

  toU(t) {
    let saved = 0;
    for (const gap of this.gaps) {
      if (t <= gap.begin) break;
      if (t < gap.end) return gap.u + ((t - gap.begin) / (gap.end - gap.begin)) * gap.shown;
      saved += gap.end - gap.begin - gap.shown;
    }
    return t - saved;
  }

  toT(u) {
    let saved = 0;
    for (const gap of this.gaps) {
      if (u <= gap.u) break;
      if (u < gap.u + gap.shown) return gap.begin + ((u - gap.u) / gap.shown) * (gap.end - gap.begin);
      saved += gap.end - gap.begin - gap.shown;
    }
    return u + saved;
  }

  /** Return the range [u, u] that is shown. */
  view() {
    return this.range ?? [0, this.length ?? this.end];
  }

  show(begin, end) {
    const width = Math.max(end - begin, SHORTEST);
    const from = Math.max(0, Math.min(begin, this.length - width));
    this.range = width >= this.length ? null : [from, from + width];
    this.tell("view");
  }

  /** Multiply the width of the shown range by `factor`; `around` is the u that stays in place. */
  zoom(factor, around) {
    const [a, b] = this.view();
    const at = Math.min(Math.max(around ?? (a + b) / 2, a), b);
    this.show(at - (at - a) * factor, at + (b - at) * factor);
  }

  /** Move the shown range by a fraction of its width. */
  pan(share) {
    if (!this.range) return;
    const [a, b] = this.range;
    const by = Math.max(-a, Math.min(share * (b - a), this.length - b));
    this.range = [a + by, b + by];
    this.tell("view");
  }

  reset() {
    this.range = null;
    this.tell("view");
  }

  point(t) {
    if (t === this.cursor) return;
    this.cursor = t;
    this.tell("cursor");
  }

  choose(t) {
    this.chosen = t;
    if (t != null) this.reveal(t);
    this.tell("chosen");
  }

  /** Move the shown range so that it includes a moment. */
  reveal(t) {
    if (!this.range) return;
    const u = this.toU(t);
    const [a, b] = this.range;
    if (u < a || u > b) this.show(u - (b - a) / 2, u + (b - a) / 2);
  }

  /** Return the ticks for an axis of this many pixels, as {step, at: [t]}. */
  ticks(width) {
    const [a, b] = this.view();
    const per = (b - a) / Math.max(width / 84, 1);
    const step = STEPS.find((s) => s >= per) ?? Math.ceil(per / 86400) * 86400;
    const at = [];
    const last = this.toT(b);
    for (let n = Math.ceil(this.toT(a) / step - 1e-9); n * step <= last + 1e-9 && at.length < 400; n += 1) {
      const t = n * step;
      const u = this.toU(t);
      const gap = this.gaps.find((g) => u > g.u && u < g.u + g.shown);
      if (gap) n = Math.max(n, Math.ceil(gap.end / step) - 1);
      else at.push(t);
    }
    return { step, at };
  }
}

/** Return the long gaps in which nothing happens, as [[begin, end]]. */
export function idleGaps(busy, end) {
  const least = Math.max(3, end * 0.04);
  const sorted = busy.filter(([a, b]) => b > a).sort((x, y) => x[0] - y[0]);
  const gaps = [];
  let until = 0;
  for (const [a, b] of sorted) {
    if (a - until > least && until > 0) gaps.push([until, a]);
    until = Math.max(until, b);
  }
  return gaps;
}

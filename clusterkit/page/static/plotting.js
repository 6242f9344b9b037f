// Loads uPlot, which draws the curves.

let made = null;

/** Load uPlot. Its initialization takes up to 80 ms (because of `Intl`), so it must not delay the first frame. */
export async function plotting() {
  made ??= (await import("./vendor/uPlot.esm.js")).default;
  return made;
}

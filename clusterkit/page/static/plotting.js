// uPlot, which draws the curves.

let made = null;

/** uPlot. It takes up to 80 ms to begin, since it asks `Intl` for languages and zones: no first frame waits for it. */
export async function plotting() {
  made ??= (await import("./vendor/uPlot.esm.js")).default;
  return made;
}

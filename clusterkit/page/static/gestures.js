// Handles the pointer on a plot: hovering, clicking, dragging to zoom into a range, and the wheel with Ctrl or Shift.

const CLICK = 4; // pixels; if the pointer moves farther between press and release, it is a drag and not a click

/** Handle gestures on `element`. `selection` is the element that shows the dragged range; the time axis begins at `to.left`. */
export function gestures(element, timeline, selection, to) {
  let from = null;
  const place = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left - to.left, event.clientY - box.top, box.width - to.left];
  };
  const uOf = (x, width) => {
    const [a, b] = timeline.view();
    return a + (Math.min(Math.max(x, 0), width) / width) * (b - a);
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y, width] = place(event);
    from = { x, y, u: uOf(x, width), moved: false };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    const [x, y, width] = place(event);
    if (!from) return x >= 0 ? to.hover(x, y) : to.hover(null);
    if (Math.abs(x - from.x) > CLICK) from.moved = true;
    if (!from.moved) return undefined;
    to.hover(null);
    const end = Math.min(Math.max(x, 0), width);
    selection.hidden = false;
    selection.style.setProperty("left", `${Math.min(from.x, end) + to.left}px`);
    selection.style.setProperty("width", `${Math.abs(end - from.x)}px`);
    return undefined;
  });
  element.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [x, y, width] = place(event);
    const { u, moved } = from;
    cancel();
    if (moved) timeline.show(Math.min(u, uOf(x, width)), Math.max(u, uOf(x, width)));
    else if (event.detail < 2) to.click?.(x, y);
  });
  const cancel = () => {
    from = null;
    selection.hidden = true;
  };
  element.addEventListener("pointercancel", cancel);
  element.addEventListener("pointerleave", () => to.hover(null));
  element.addEventListener("dblclick", () => timeline.reset());
  element.addEventListener(
    "wheel",
    (event) => {
      const [x, , width] = place(event);
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        timeline.zoom(Math.exp(Math.max(-60, Math.min(event.deltaY, 60)) * 0.006), uOf(x, width));
      } else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY) && timeline.range) {
        event.preventDefault();
        timeline.pan(sideways / width);
      }
    },
    { passive: false },
  );
}

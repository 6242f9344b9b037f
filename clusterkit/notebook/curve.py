"""Draws the loss of a run as a curve in a line of text, which every notebook front end can show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from clusterkit.views.naming import main_metric, number

BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 60  # the maximum width of the curve
MOST = 8 * COLUMNS  # the maximum number of points to keep


class LossCurve:
    """Collects the newest metrics of a run, and keeps a limited number of points."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._points: list[tuple[int, float]] = []

    def add(self, step: int | None, metrics: Mapping[str, float | None]) -> None:
        """Add the loss (or else the first metric) at a step. A repeated step replaces the points from that step on."""
        if self._name is None:
            self._name = main_metric(metrics)
        value = None if self._name is None else metrics.get(self._name)
        if step is None or value is None or (self._points and self._points[-1] == (step, value)):
            return
        while self._points and self._points[-1][0] >= step:
            self._points.pop()
        self._points.append((step, float(value)))
        if len(self._points) > MOST:
            del self._points[1:-1:2]

    def line(self) -> str:
        """Return the curve with its first and last value, such as `loss 2.31 █▅▃▂▁ 0.04`, or "" below two points."""
        if len(self._points) < 2:
            return ""
        steps, values = zip(*self._points, strict=True)
        columns = min(COLUMNS, len(steps))
        at = [steps[0] + (steps[-1] - steps[0]) * column // (columns - 1) for column in range(columns)]
        shown = [values[bisect_right(steps, step) - 1] / len(BARS) for step in at]  # keeps differences finite
        least = min(shown)
        height = (max(shown) - least) or 1.0
        bars = "".join(BARS[int((value - least) / height * (len(BARS) - 1))] for value in shown)
        return f"{self._name} {number(values[0])} {bars} {number(values[-1])}"

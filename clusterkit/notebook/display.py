"""The outputs of a cell that shows a run: the tabs and their content, updated while the run is live, and its loss."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping

from IPython.core.getipython import get_ipython
from IPython.display import display

from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.notebook.output import CellOutput
from clusterkit.notebook.page import panes, tabs
from clusterkit.views.naming import main_metric, number
from clusterkit.views.statusline import status_line

WIDTH = 100  # columns of the status line
BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 60  # the maximum width of the curve
MOST = 8 * COLUMNS  # the maximum number of points to keep


class CellDisplay:
    """Shows a run in the cell that waits for the run."""

    def __init__(self, run_id: str) -> None:
        self._key = f"clusterkit-{run_id}".replace(".", "-")
        self._curve = LossCurve()
        self._shown: Mapping[str, str] | None = None
        self._replaces = hasattr(get_ipython(), "kernel")  # False in a terminal, where IPython prints each update

    def __call__(self, output: CellOutput, look: RunSnapshot | None, over: bool) -> None:
        """Show the run if its content has changed."""
        if look is None:
            if over:
                print("\n".join(output.report))
            return
        if not (over or self._replaces):
            return
        self._curve.add(look.status.step, look.status.metrics)
        status = [self._curve.line(), "" if over and output.report else _status(look)]
        content = panes(self._key, output, "\n".join(filter(None, status)))
        if content == self._shown:
            return
        if self._shown is None:
            _show(tabs(self._key, output.tasks), f"{self._key}-tabs")
        _show(content, self._key, update=self._shown is not None)
        self._shown = content


def _show(content: Mapping[str, str], name: str, update: bool = False) -> None:
    display(content, raw=True, display_id=name, update=update)  # type: ignore[no-untyped-call]


def _status(look: RunSnapshot) -> str:
    return status_line(look.status, time.time(), WIDTH) or f"run {look.run.run_id} {look.state}"


class PlainDisplay:
    """Prints the output of a command that shows no tasks, such as `up -d`."""

    def __init__(self) -> None:
        self._printed = 0

    def __call__(self, output: CellOutput, look: RunSnapshot | None, over: bool) -> None:
        """Print the new lines of the output."""
        new = output.report[self._printed :]
        self._printed += len(new)
        if new:
            print("\n".join(new))


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

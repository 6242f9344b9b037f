"""Shows a run in a cell: tabs with the tasks' output, and the loss, both updated while the run is live.

A `Cluster` is shown while one of its methods waits.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate, takewhile
from weakref import WeakKeyDictionary

from IPython.core.getipython import get_ipython
from IPython.display import display

from clusterkit.api.cluster import Cluster
from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.notebook.output import CellOutput, panes, tabs
from clusterkit.notebook.running import EVERY
from clusterkit.store.arrivals import Arrivals, Piece
from clusterkit.store.directory import RunDirectory
from clusterkit.views.console import prefix
from clusterkit.views.naming import main_metric, number
from clusterkit.views.prefixed import Prefixer
from clusterkit.views.statusline import status_line
from clusterkit.words.model import Task

WIDTH = 100  # columns; the width of the status line
BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 60  # the maximum width of the curve
MOST_POINTS = 8 * COLUMNS  # the maximum number of points to keep
MOST_READ = 4 << 20  # bytes; the maximum amount of output to read per update; older output is skipped


class CellDisplay:
    """Shows a run in the cell that waits for the run."""

    def __init__(self, run_id: str) -> None:
        self._key = f"clusterkit-{run_id}".replace(".", "-")
        self._curve = LossCurve()
        self._shown: Mapping[str, str] | None = None
        self._replaces = hasattr(get_ipython(), "kernel")  # False in a terminal, where IPython prints each update

    def __call__(self, output: CellOutput, look: RunSnapshot | None, over: bool) -> None:
        """Show the run, if anything has changed. `over` is True once the run has ended."""
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
    """Prints the output of a command that does not show tasks, such as `up -d`."""

    def __init__(self) -> None:
        self._printed = 0

    def __call__(self, output: CellOutput, look: RunSnapshot | None, over: bool) -> None:
        """Print the new lines of the output."""
        new = output.report[self._printed :]
        self._printed += len(new)
        if new:
            print("\n".join(new))


class LossCurve:
    """The curve of a run's loss, with a limited number of points."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._points: list[tuple[int, float]] = []

    def add(self, step: int | None, metrics: Mapping[str, float | None]) -> None:
        """Add the loss, or otherwise the first metric, at a step. First drop all points from this step on."""
        if self._name is None:
            self._name = main_metric(metrics)
        value = None if self._name is None else metrics.get(self._name)
        if step is None or value is None or (self._points and self._points[-1] == (step, value)):
            return
        while self._points and self._points[-1][0] >= step:
            self._points.pop()
        self._points.append((step, float(value)))
        if len(self._points) > MOST_POINTS:
            del self._points[1:-1:2]

    def line(self) -> str:
        """Return the curve with its first and last value, such as `loss 2.31 █▅▃▂▁ 0.04`; "" below 2 points."""
        if len(self._points) < 2:
            return ""
        steps, values = zip(*self._points, strict=True)
        columns = min(COLUMNS, len(steps))
        at = [steps[0] + (steps[-1] - steps[0]) * column // (columns - 1) for column in range(columns)]
        shown = [values[bisect_right(steps, step) - 1] / len(BARS) for step in at]  # so that differences can't overflow
        least = min(shown)
        height = (max(shown) - least) or 1.0
        bars = "".join(BARS[int((value - least) / height * (len(BARS) - 1))] for value in shown)
        return f"{self._name} {number(values[0])} {bars} {number(values[-1])}"


class ClusterView:
    """Shows a cluster in a cell. Reads the tasks' output from the logs, since a `Cluster` does not print it."""

    def __init__(self, cluster: Cluster) -> None:
        self._run = RunDirectory(cluster.directory)
        self._output, self._display = CellOutput(), CellDisplay(cluster.run_id)
        self._arrivals, self._streams = Arrivals(self._run), dict[tuple[Task, int], Prefixer]()
        self._look: RunSnapshot | None = None
        self._due = 0.0
        self.is_over = False

    def show(self, cluster: Cluster) -> None:
        """Update the cell, at most every EVERY seconds."""
        now = time.monotonic()
        over = not cluster.running
        if self.is_over or (now < self._due and not over) or not self._run.job_file.exists():
            return
        self._due, self.is_over = now + EVERY, over
        self._look = self._look or RunSnapshot(self._run)
        self._look.refresh()
        if self._look.info is None:
            self._look = None
            return
        self._output.tasks = [*map(str, self._look.info.job.tasks)]
        for piece in _newest(self._arrivals.new()):
            self._take(piece, now)
        if over:
            self._end(cluster, now)
        self._display(self._output, self._look, over)

    def _take(self, piece: Piece, now: float) -> None:
        stream = (piece.task, piece.attempt)
        if stream not in self._streams:
            self._streams[stream] = Prefixer(prefix(piece.task, len(str(piece.task)), False), False, False)
        self._output.feed(b"".join(self._streams[stream].feed(self._arrivals.read(piece), now)))

    def _end(self, cluster: Cluster, now: float) -> None:
        self._arrivals.close()
        self._output.feed(b"".join(chunk for one in self._streams.values() for chunk in one.flush(now)))
        self._output.feed(f"{cluster.result.report()}\n".encode("utf-8", "replace"))


def _newest(pieces: list[Piece]) -> Iterator[Piece]:
    sizes = accumulate(piece.end - piece.start for piece in reversed(pieces))
    count = sum(1 for _ in takewhile(lambda size: size < MOST_READ, sizes))
    return iter(pieces[len(pieces) - count :])


class NotebookClusters:
    """Shows all clusters of the notebook. `waited` contains the clusters for which the current cell has waited."""

    def __init__(self) -> None:
        self.waited = set[Cluster]()
        self._shown: WeakKeyDictionary[Cluster, ClusterView] = WeakKeyDictionary()

    def show(self, cluster: Cluster) -> None:
        """Show a cluster. Do nothing outside the main thread, since only this thread can write to a cell."""
        if threading.current_thread() is threading.main_thread():
            self.waited.add(cluster)
            if cluster not in self._shown:
                self._shown[cluster] = ClusterView(cluster)
            self._shown[cluster].show(cluster)

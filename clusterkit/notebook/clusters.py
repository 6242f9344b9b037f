"""Shows a `Cluster` in a notebook cell while one of the cluster's methods waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import accumulate, takewhile
from weakref import WeakKeyDictionary

from clusterkit.api.cluster import Cluster
from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.notebook.display import CellDisplay
from clusterkit.notebook.output import CellOutput
from clusterkit.notebook.running import EVERY
from clusterkit.store.arrivals import Arrivals, Piece
from clusterkit.store.directory import RunDirectory
from clusterkit.views.console import prefix
from clusterkit.views.prefixed import Prefixer
from clusterkit.words.model import Task

MOST = 4 << 20  # bytes; the maximum amount of output to read at a time; older output is skipped


class ClusterView:
    """Shows one cluster in a cell. The tasks' output is read from the logs, since a `Cluster` does not print it."""

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
    count = sum(1 for _ in takewhile(lambda size: size < MOST, sizes))
    return iter(pieces[len(pieces) - count :])


class NotebookClusters:
    """Shows all clusters of the notebook. `waited` are the clusters that the current cell has waited for."""

    def __init__(self) -> None:
        self.waited = set[Cluster]()
        self._shown: WeakKeyDictionary[Cluster, ClusterView] = WeakKeyDictionary()

    def show(self, cluster: Cluster) -> None:
        """Show a cluster. Ignored outside the main thread, since only the main thread can write to a cell."""
        if threading.current_thread() is threading.main_thread():
            self.waited.add(cluster)
            if cluster not in self._shown:
                self._shown[cluster] = ClusterView(cluster)
            self._shown[cluster].show(cluster)

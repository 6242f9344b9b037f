"""Measures the CPU and memory use of tasks, each with all processes that it has started."""

from __future__ import annotations

import time
from collections.abc import Mapping

from clusterkit.system import procfs
from clusterkit.words.model import Task

# If more processes and threads for each task were started since the last sample, searching anew is cheaper.
MOST_NEW = 60


class Meter:
    """Samples the CPU and memory use of tasks. CPU use is averaged since the last sample or the task's start.

    A search for a task's descendants takes a millisecond, since the kernel lists them by thread, and a TensorFlow task
    has a hundred threads. So a search is made once, and later samples look only at processes that were started since.
    """

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, float]] = {}  # the last sample's time and CPU seconds, by the task's pid
        self._trees: dict[int, dict[int, int]] = {}  # by the task's pid: its processes and when they started, in ticks
        self._newest: int | None = None  # the newest pid of this machine at the last sample

    def sample(self, pids: Mapping[Task, int]) -> dict[Task, tuple[float, int]]:
        """Return the CPU use (in percent of one core) and memory use (RSS, in bytes) of each task with a process."""
        roots = {pid: procfs.usage(pid) for pid in pids.values()}
        self._find_processes(roots)
        found = {task: self._use(pid, roots[pid]) for task, pid in pids.items()}
        return {task: use for task, use in found.items() if use is not None}

    def _find_processes(self, roots: Mapping[int, procfs.Usage | None]) -> None:
        before, self._newest = self._newest, procfs.newest_pid()
        starts = {root: used.start for root, used in roots.items() if used is not None}
        self._trees = {root: tree for root, tree in self._trees.items() if starts.get(root) == tree.get(root)}
        if before is None or self._newest is None or not 0 <= self._newest - before <= MOST_NEW * len(roots):
            self._trees.clear()  # pids have begun again from the smallest, or there are too many new ones
        else:
            for pid in range(before + 1, self._newest + 1):
                self._add(pid)
        for root in starts.keys() - self._trees.keys():
            found = {pid: procfs.start_of(pid) for pid in procfs.descendants(root)}
            below = {pid: start for pid, start in found.items() if start is not None}
            self._trees[root] = {root: starts[root], **below}

    def _add(self, pid: int) -> None:
        """Add a new process to the tree of its parent. The pids of threads look the same, but belong to a process."""
        parent = procfs.parent(pid)
        tree = next((tree for tree in self._trees.values() if parent in tree), None)
        if tree is None or procfs.is_thread(pid):
            return
        start = procfs.start_of(pid)
        if start is not None:
            tree[pid] = start

    def _use(self, root: int, first: procfs.Usage | None) -> tuple[float, int] | None:
        if first is None or first.session != root:  # the pid has been reused: a task would lead its own session
            return None
        uses = []
        for pid, start in list(self._trees[root].items()):
            used = first if pid == root else procfs.usage(pid)
            if used is None or used.start != start:
                del self._trees[root][pid]
                continue
            uses.append(used)
        now = time.monotonic()
        cpu, memory = sum(used.cpu for used in uses), sum(used.memory for used in uses)
        age = max((used.age for used in uses), default=0.0)  # the task's first process is the oldest
        since, until_then = self._before.get(root, (now - age, 0.0))
        self._before[root] = (now, cpu)
        return 100 * max(0.0, cpu - until_then) / max(now - since, 0.01), memory

"""Measures the CPU and memory that tasks use, over the whole process tree of each."""

from __future__ import annotations

import time
from collections.abc import Mapping

from clusterkit.system import procfs
from clusterkit.words.model import Task


class Meter:
    """Samples tasks. The first sample of a task averages over its lifetime, later ones over the time since the last."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, float]] = {}  # by first pid: time of the last sample, CPU seconds by then

    def sample(self, pids: Mapping[Task, int]) -> dict[Task, tuple[float, int]]:
        """Return the percent of one core and the bytes of memory (RSS) of each task that has a process."""
        found = {task: self._tree(pid) for task, pid in pids.items()}
        return {task: use for task, use in found.items() if use is not None}

    def _tree(self, pid: int) -> tuple[float, int] | None:
        seen = procfs.stat(pid)
        if seen is None or seen[2] != pid:  # a task leads its session, so this pid has been reused
            return None
        uses = [use for member in (pid, *procfs.descendants(pid)) if (use := procfs.use(member)) is not None]
        now, cpu, memory = time.monotonic(), sum(use[0] for use in uses), sum(use[1] for use in uses)
        age = max((use[2] for use in uses), default=0.0)  # the task's first process is the oldest
        since, until_then = self._before.get(pid, (now - age, 0.0))
        self._before[pid] = (now, cpu)
        return 100 * max(0.0, cpu - until_then) / max(now - since, 0.01), memory

"""Merges the samples that agents take of their tasks' CPU and memory use into samples of the run."""

from __future__ import annotations

import time
from collections.abc import Collection

from clusterkit.backends.link.messages import BadMessage, Used
from clusterkit.store.usage import GREATEST, UsageLog, UsageSample, Use, interval
from clusterkit.words.model import Task

EARLY = 0.75  # the share of the interval after which the next sample is written: agents' clocks differ a little
OLD = 3.0  # intervals; the use of a host that sent no sample for longer is left out


class HostsUsage:
    """Writes at most one sample per interval, however many messages agents send. For the listener's thread."""

    def __init__(self, log: UsageLog) -> None:
        self._log = log
        self._newest: dict[Task, tuple[float, Use]] = {}
        self._began = self._due = time.monotonic()

    def add(self, used: Used, tasks: Collection[Task]) -> None:
        """Take a sample of a host; `tasks` are the tasks of the job. Raises BadMessage."""
        sample = {task: _use(task, values) for task, values in used.tasks.items()}
        if unknown := next((task for task in sample if task not in tasks), None):
            raise BadMessage(f"the job has no {unknown}.")
        now = time.monotonic()
        self._newest |= {task: (now, use) for task, use in sample.items()}
        if now < self._due:
            return
        every = interval(now - self._began)
        self._due = now + EARLY * every
        self._newest = {task: known for task, known in self._newest.items() if now - known[0] <= OLD * every}
        self._log.add(UsageSample(time.time(), {task: use for task, (_, use) in self._newest.items()}, {}))


def _use(task: Task, values: tuple[float, ...]) -> Use:
    if len(values) == 2 and all(0 <= value <= GREATEST for value in values):
        return values[0], int(values[1])
    raise BadMessage(f"{values!r:.80} are not the CPU and memory use of {task}.")

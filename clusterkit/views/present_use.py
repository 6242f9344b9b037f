"""The current CPU and memory use of a run's tasks, from the newest sample."""

from __future__ import annotations

from collections.abc import Mapping

from clusterkit.ledger.status import RunStatus, TaskStatus
from clusterkit.store.usage import UsageReader, Use
from clusterkit.words.model import Task


def present_use(samples: UsageReader, status: RunStatus, wall: float) -> Mapping[Task, Use]:
    """Return the CPU and memory use of the tasks at a wall time, from the newest sample that was read.

    A task is left out if it has no process, or if its process was started after the sample was taken.
    """
    if (sample := samples.present(wall, status.began_at or wall)) is None:
        return {}
    return {task: use for task, use in sample.tasks.items() if _was_up(status.tasks.get(task), sample.wall)}


def _was_up(of: TaskStatus | None, wall: float) -> bool:
    return of is not None and of.alive and of.started is not None and of.started <= wall

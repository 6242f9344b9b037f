"""The census: sets of tasks in the states that rules ask for, so that no event has to go through every task."""

from __future__ import annotations

from collections.abc import Iterable

from clusterkit.words.job import JobSpec
from clusterkit.words.model import SETTLED, Task, TaskState


class Census:
    """Sets of tasks by their present attempts, kept with each move.

    | set | tasks |
    | --- | --- |
    | unsettled | of which something has to be waited for |
    | unready | of the cluster, that are not connected |
    | idle | that train, and neither run nor have ended well |
    | starting, forked, cold | on their way up: without a process; running, not ready, and forked or not |
    """

    def __init__(self, job: JobSpec) -> None:
        self._cluster = job.cluster
        self.unsettled: set[Task] = set()
        self.unready = set(job.cluster)
        self.idle = set(job.training)
        self.starting: set[Task] = set()
        self.forked: set[Task] = set()
        self.cold: set[Task] = set()
        self._gone: set[Task] = set()

    def moved(self, task: Task, state: TaskState, forked: bool, ready: bool, ended_well: bool) -> None:
        _keep(self.unsettled, task, state not in SETTLED)
        _keep(self.starting, task, state is TaskState.STARTING)
        if state is TaskState.STARTING:
            _keep(self.unready, task, task in self._cluster)
        runs = state is TaskState.RUNNING
        _keep(self.forked, task, runs and forked and not ready)
        _keep(self.cold, task, runs and not forked and not ready)
        if task.trains and task not in self._gone:
            _keep(self.idle, task, not runs and not ended_well)

    def give_up(self, tasks: Iterable[Task]) -> None:
        """Stop waiting for these tasks, except for their processes that still run."""
        self._gone.update(tasks)
        self.unready -= self._gone
        self.idle -= self._gone

    def connected(self, task: Task) -> None:
        for tasks in (self.unready, self.forked, self.cold):
            tasks.discard(task)


def _keep(tasks: set[Task], task: Task, is_in: bool) -> None:
    (tasks.add if is_in else tasks.discard)(task)

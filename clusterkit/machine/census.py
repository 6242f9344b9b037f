"""The census: sets of tasks by state, so that rules need not examine every task at each event."""

from __future__ import annotations

from collections.abc import Iterable

from clusterkit.words.job import JobSpec
from clusterkit.words.model import SETTLED, Task, TaskState


class Census:
    """Sets of tasks by the state of their current attempts, updated at each state change.

    | set | tasks in the set |
    | --- | --- |
    | unsettled | tasks for which the run has to wait |
    | unready | tasks of the cluster that are not connected |
    | idle | training tasks that are not running and have not exited with code 0 |
    | starting | tasks whose process does not exist yet |
    | forked | running tasks that are not ready, and whose processes were forked from a warm server |
    | cold | all other running tasks that are not ready |
    """

    def __init__(self, job: JobSpec) -> None:
        self._cluster = job.cluster
        self.unsettled: set[Task] = set()
        self.unready = set(job.cluster)
        self.idle = set(job.training)
        self.starting: set[Task] = set()
        self.forked: set[Task] = set()
        self.cold: set[Task] = set()
        self._given_up: set[Task] = set()

    def moved(self, task: Task, state: TaskState, forked: bool, ready: bool, ended_well: bool) -> None:
        _set_member(self.unsettled, task, state not in SETTLED)
        _set_member(self.starting, task, state is TaskState.STARTING)
        if state is TaskState.STARTING:
            _set_member(self.unready, task, task in self._cluster)
        runs = state is TaskState.RUNNING
        _set_member(self.forked, task, runs and forked and not ready)
        _set_member(self.cold, task, runs and not forked and not ready)
        if task.trains and task not in self._given_up:
            _set_member(self.idle, task, not runs and not ended_well)

    def give_up(self, tasks: Iterable[Task]) -> None:
        """Stop waiting for these tasks, except for the end of their running processes."""
        self._given_up.update(tasks)
        self.unready -= self._given_up
        self.idle -= self._given_up

    def connected(self, task: Task) -> None:
        for tasks in (self.unready, self.forked, self.cold):
            tasks.discard(task)


def _set_member(tasks: set[Task], task: Task, is_member: bool) -> None:
    (tasks.add if is_member else tasks.discard)(task)

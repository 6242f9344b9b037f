"""Exits that do not come: a program has ended, and its process hangs."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.timers import Timer
from clusterkit.words.events import CannotExit, ProgramEnds
from clusterkit.words.model import Task
from clusterkit.words.states import TaskState

PATIENCE = 10.0  # seconds; TensorFlow's coordinator needs some to remove its functions from its servers


@dataclass(slots=True)
class Exits:
    """Decides that a task can't exit. A coordinator waits for a worker that is down when its program ends."""

    state: ClusterState

    def program_ends(self, record: TaskRecord, event: ProgramEnds) -> None:
        """The program has ended, or continues."""
        if not event.begun:
            self.state.timers.clear(Timer.EXIT, record.task)
        elif record.is_untouched and not self.state.timers.is_set(Timer.EXIT, record.task):
            self.state.timers.set(Timer.EXIT, self.state.now + PATIENCE, record.task)

    def due(self, record: TaskRecord) -> None:
        """It should have exited by now."""
        down = tuple(task for task in sorted(self.state.job.cluster - {record.task}) if self._is_down(task))
        self.state.record(CannotExit(record.task, record.attempt, PATIENCE, down))

    def _is_down(self, task: Task) -> bool:
        """Whether a task is of no use to others: it does not run, is stopped, or is on its way up again."""
        record = self.state.records[task]
        away = record.state is not TaskState.RUNNING or bool(record.paused_by)
        return away or (record.attempt > 1 and not record.ready)

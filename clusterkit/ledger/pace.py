"""Interruptions of a run's steps, derived from the run's events."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterkit.ledger.incidents import Incidents
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import Failure

WENT_ON = 2  # steps since a pause began that prove that training continues; the first may be older than the pause


@dataclass(slots=True)
class Interruptions:
    """Follows interruptions of the steps. Times are in seconds since the run began."""

    stepped: float | None = None
    stall: tuple[float, ev.Stalled] | None = None  # when the stall began, and the last warning
    failure: Failure | None = None  # the cause of the current recovery
    failed: float | None = None  # when the current recovery began
    restart: ev.RestartPlanned | None = None  # the newest restart decision
    paused: dict[Task, float] = field(default_factory=dict)
    _steps: int = 0  # new steps since the last pause began

    @property
    def went_on(self) -> bool:
        """Whether training has continued since the last pause began."""
        return self._steps >= WENT_ON

    def step(self, now: float, incidents: Incidents, is_new: bool) -> None:
        """Note a training task's step. If not `is_new`, the same step was reported again, with metrics."""
        self.stepped, self.stall, self._steps = now, None, self._steps + is_new
        if self.failed is not None and not incidents.mending():
            self.failure = self.failed = None

    def take(self, now: float, event: ev.Event) -> None:
        match event:
            case ev.Stalled():
                since = max(0.0, now - event.seconds)
                self.stall = (since if self.stall is None else self.stall[0], event)
            case ev.Paused(task, _, paused):
                self._pause(now, task, paused)
            case ev.InDebugger(task) if not event.editor:
                self._pause(now, task, True)
            case ev.LeftDebugger(task) | ev.Exited(task):
                self._pause(now, task, False)
            case ev.Failed():
                self.failure, self.failed = (self.failure, self.failed) if self.failure else (event.failure, now)
            case ev.RestartPlanned():
                self.failure, self.stall, self.restart = event.cause or self.failure, None, event
                self.failed = now if self.failed is None else self.failed
            case ev.Continued():
                self.paused.clear()
                self.stall, self.failed = None, now

    def _pause(self, now: float, task: Task, paused: bool) -> None:
        if not paused:
            self.paused.pop(task, None)
        elif task not in self.paused:
            self.paused[task], self._steps = now, 0

"""Tracks, from a run's events, what interrupts the run's steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterkit.ledger.incidents import Incidents
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import Failure

CONTINUING_STEPS = 2  # this many steps after a pause prove that training continues; the first may be older


@dataclass(slots=True)
class Interruptions:
    """The interruptions of a run's steps: stalls, failures and pauses. Times are in seconds since the run began."""

    last_step_at: float | None = None
    stall: tuple[float, ev.Stalled] | None = None  # when the stall began, and the last warning
    failure: Failure | None = None  # the cause of the current recovery
    recovery_since: float | None = None  # when the current recovery began
    newest_restart: ev.RestartPlanned | None = None  # the newest restart decision
    paused_since: dict[Task, float] = field(default_factory=dict)
    _steps_since_pause: int = 0  # the number of new steps since the last pause began

    @property
    def has_continued(self) -> bool:
        """Return whether training has continued since the last pause began."""
        return self._steps_since_pause >= CONTINUING_STEPS

    def step(self, now: float, incidents: Incidents, is_new: bool) -> None:
        """Note a step that a training task reported. If not `is_new`, the report only adds metrics."""
        self.last_step_at, self.stall, self._steps_since_pause = now, None, self._steps_since_pause + is_new
        if self.recovery_since is not None and not incidents.open_restarts():
            self.failure = self.recovery_since = None

    def add(self, now: float, event: ev.Event) -> None:
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
                self.failure, self.recovery_since = (
                    (self.failure, self.recovery_since) if self.failure else (event.failure, now)
                )
            case ev.RestartPlanned():
                self.failure, self.stall, self.newest_restart = event.cause or self.failure, None, event
                self.recovery_since = now if self.recovery_since is None else self.recovery_since
            case ev.Continued():
                self.paused_since.clear()
                self.stall, self.recovery_since = None, now

    def _pause(self, now: float, task: Task, paused: bool) -> None:
        if not paused:
            self.paused_since.pop(task, None)
        elif task not in self.paused_since:
            self.paused_since[task], self._steps_since_pause = now, 0

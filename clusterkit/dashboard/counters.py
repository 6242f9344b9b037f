"""What a run's metrics count: each event of the journal once, however many of them the page forgets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import assert_never

from clusterkit.dashboard.bars import how_it_ended
from clusterkit.words import events as ev
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import Task
from clusterkit.words.states import TaskState

UNKNOWN = "unknown"  # how an attempt ended of which the journal does not say it
# The supervisor injects these itself; of all others the backend reports whether they took hold.
_OWN = frozenset({FaultAction.KILL, FaultAction.TERM, FaultAction.STOP, FaultAction.HANG_START})

# What no counter counts: gauges and the recoveries have it, or nothing.
_Uncounted = (
    ev.Progressed | ev.StepsTimed | ev.Spawned | ev.CheckpointFound | ev.SpawnFailed | ev.Exited | ev.Swept | ev.Drained
    | ev.Resumed | ev.Ready | ev.Reached | ev.PhaseChanged | ev.ProgramEnds | ev.SigtermHandled | ev.TrainsWith
    | ev.InDebugger | ev.LeftDebugger | ev.EditorAwaited | ev.Began | ev.AllocationEnding | ev.Ticked | ev.Profiled
    | ev.Noted | ev.TensorBoardReady | ev.TensorBoardLost | ev.DashboardReady | ev.DashboardLost | ev.ProgramChanged
    | ev.Inspected | ev.Interrupted | ev.Requested | ev.LifelineLost | ev.Impaired | ev.Crashed | ev.StorageFailed
    | ev.OfHost | ev.Failed | ev.LeftEarly | ev.CannotExit | ev.TrainAlone | ev.RestartPlanned | ev.Shrunk
    | ev.HostAvoided | ev.RequestRefused | ev.Paused | ev.FaultHealed | ev.Succeeded | ev.Stopping | ev.Warned
    | ev.Stalled | ev.Straggling | ev.KeepsUp | ev.EditTrains | ev.WaitsForChange | ev.Finished
)  # fmt: skip


@dataclass(slots=True)
class Counters:
    """Numbers that only grow, as a fold over the events.

    `restarts` are by task and by how the attempt before ended, `faults` by action; `saved` is when the newest
    checkpoint was complete, in seconds since the run began.
    """

    restarts: Counter[tuple[Task, str]] = field(default_factory=Counter)
    faults: Counter[FaultAction] = field(default_factory=Counter)
    saved: float | None = None
    _newest: dict[Task, int] = field(default_factory=dict)
    _ended: dict[Task, tuple[int, str]] = field(default_factory=dict)  # each task's last attempt that is over, and how
    _asked: dict[int, FaultAction] = field(default_factory=dict)  # faults of which the backend has not reported yet

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event. A new one is a type error here, until it is counted or is one of those that are not."""
        if isinstance(event, _Uncounted):
            return
        match event:
            case ev.Changed(task, attempt, state):
                if state is TaskState.STARTING:
                    self._starts(task, attempt)
            case ev.AttemptEnded(task, attempt):
                if attempt >= self._newest.get(task, 0):
                    self._ended[task] = attempt, how_it_ended(event.exit, event)[0]
            case ev.Continued():
                for task, newest in self._newest.items():
                    if self._ended.get(task, (0, ""))[0] < newest:
                        self._ended[task] = newest, "lost"
            case ev.FaultInjected(number, _, action):
                if action in _OWN:
                    self.faults[action] += 1
                else:
                    self._asked[number] = action
            case ev.FaultTook(number, _, done):
                if done and number in self._asked:
                    self.faults[self._asked.pop(number)] += 1
            case ev.Checkpointed():
                self.saved = at
            case _:
                assert_never(event)

    def _starts(self, task: Task, attempt: int) -> None:
        if attempt <= self._newest.get(task, 0):
            return
        self._newest[task] = attempt
        if attempt > 1:
            before, how = self._ended.get(task, (0, UNKNOWN))
            self.restarts[task, how if before == attempt - 1 else UNKNOWN] += 1

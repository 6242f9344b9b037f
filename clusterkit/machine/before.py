"""Before: what a run has behind it when it continues in another allocation, as a fold over its journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from clusterkit.words import events as ev
from clusterkit.words.faults import AT_ONCE
from clusterkit.words.model import Task
from clusterkit.words.outcome import AttemptEnded, Exit, RunResult
from clusterkit.words.states import TaskState

Key = tuple[Task, int]  # task, attempt


@dataclass(slots=True)
class Before:
    """Nothing, for a run that begins. Times in seconds of the run's clock, which its allocations share.

    | field | meaning |
    | --- | --- |
    | began | when the run began; None if it did not |
    | last | when something happened last |
    | allocations | how often a supervisor began or continued it |
    | spent | seconds that it spent in allocations that are over |
    | newest | the newest attempt of each task |
    | ended, live | attempts that are over; and those that were not when the journal ended, as far as they are known |
    | faults, open, injected | the texts of faults that came about, those not healed, and the highest number of any |
    | done | the task whose success was the job's |
    | stopped | why the run was being ended for good |
    | result | how it was ended, or suspended, in the last allocation |
    """

    began: float | None = None
    last: float = 0.0
    allocations: int = 0
    spent: float = 0.0
    newest: dict[Task, int] = field(default_factory=dict)
    ended: dict[Key, AttemptEnded] = field(default_factory=dict)
    live: dict[Key, AttemptEnded] = field(default_factory=dict)
    restarts: int = 0
    checkpoint: tuple[int, str] | None = None
    step: int | None = None
    faults: set[str] = field(default_factory=set)
    open: dict[int, ev.FaultInjected] = field(default_factory=dict)
    injected: int = 0
    done: Task | None = None
    stopped: str | None = None
    result: RunResult | None = None
    _orphaned: bool = False  # what stopped the run then was no decision about it

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event."""
        if isinstance(event, ev.Began | ev.Continued):
            self._enter(at)
        else:
            self.spent += max(0.0, at - self.last)
        self.last = max(at, self.last)
        match event:
            case ev.LifelineLost():
                self._orphaned = True
            case ev.RestartPlanned():
                self.restarts += 1
            case ev.Succeeded(task):
                self.done = task
            case ev.Stopping(reason) if not (event.suspends or self._orphaned):
                self.stopped, self.done = reason, None  # a task of its gang may have failed beside the success
            case ev.Finished(result):
                self.result = result
            case ev.FaultInjected() | ev.FaultTook() | ev.FaultHealed():
                self._of_fault(event)
            case _:
                self._of_attempt(at, event)

    @property
    def final(self) -> RunResult | None:
        """How the run ended for good."""
        return self.result if self.result is not None and self.result.final else None

    def lost(self) -> list[AttemptEnded]:
        """The attempts of which nobody saw the end."""
        over = self.last - (self.began or 0.0)
        return [replace(self.live[key], ended=over, exit=Exit(lost=True)) for key in sorted(self.live)]

    def _enter(self, at: float) -> None:
        self.began = at if self.began is None else self.began
        self.allocations += 1
        self.result, self._orphaned = None, False

    def _of_fault(self, event: ev.FaultInjected | ev.FaultTook | ev.FaultHealed) -> None:
        match event:
            case ev.FaultInjected(number, fault, action):
                self.injected = max(number, self.injected)
                self.faults.add(fault)
                if action not in AT_ONCE:
                    self.open[number] = event
            case ev.FaultTook(number, done=False) | ev.FaultHealed(number):
                self.open.pop(number, None)

    def _of_attempt(self, at: float, event: ev.Event) -> None:
        match event:
            case ev.Changed(task, attempt, TaskState.STARTING):
                self.newest[task] = max(attempt, self.newest.get(task, 0))
                started = at - (self.began or 0.0)
                self.live[task, attempt] = AttemptEnded(task, attempt, started, None, None, None, None, None, None)
            case ev.AttemptEnded(task, attempt):
                self.live.pop((task, attempt), None)
                self.ended[task, attempt] = event
            case ev.Progressed(task, attempt, step) if known := self.live.get((task, attempt)):
                first = step if known.first_step is None else known.first_step
                self.live[task, attempt] = replace(known, first_step=first, last_step=step)
                self.step = step if task.trains else self.step
            case ev.Resumed(task, attempt, step, path) if known := self.live.get((task, attempt)):
                self.live[task, attempt] = replace(known, resumed_step=step, resumed_from=path)
                if path is not None and self.checkpoint is None:
                    self.checkpoint = (step, path)
            case ev.Checkpointed(_, _, step, path):
                self.checkpoint = (step, path)


def before_of(events: Iterable[tuple[float, ev.Event]]) -> Before:
    """What these events leave behind, each with its time."""
    before = Before()
    for at, event in events:
        before.take(at, event)
    return before

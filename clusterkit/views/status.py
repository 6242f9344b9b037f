"""Status: the state of a run and of its tasks, as a fold over the journal's events."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from clusterkit.words import events as ev
from clusterkit.words.faults import AT_ONCE, FaultAction
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Exit, RunResult
from clusterkit.words.reports import EDITOR
from clusterkit.words.states import ALIVE, TaskState

WINDOW = 30.0  # seconds of progress over which the speed is measured
QUIET = 5.0  # seconds without a report after which the speed that is shown falls


class RunPhase(enum.StrEnum):
    """Where a run is."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # the job failed; a change of its program starts it again
    STOPPING = "stopping"
    OVER = "over"


@dataclass(slots=True)
class TaskStatus:
    """The state of a task. Times are wall times in seconds; `started` is when the present attempt started."""

    task: Task
    endpoint: str | None = None
    host: str | None = None  # of a job on several
    state: TaskState = TaskState.WAITING
    asked: Asked | None = None  # why it is being ended
    attempt: int = 0
    pid: int | None = None
    started: float | None = None
    ready: bool = False
    paused: bool = False
    step: int | None = None
    total: int | None = None  # steps at the end of the training, where the task has told
    metrics: Mapping[str, float | str | None] = field(default_factory=dict)
    resumed_step: int | None = None
    last_exit: Exit | None = None
    reports: deque[tuple[float, int]] = field(default_factory=deque)
    debugger: str | None = None  # where it is held: `train.py:31 in step()`
    straggling: ev.Straggling | None = None  # why it is slower than its peers at present
    given_up: bool = False  # the job continues without it
    faults: dict[int, FaultAction] = field(default_factory=dict)  # those that are open, by their numbers

    @property
    def alive(self) -> bool:
        """A process exists, or is being made."""
        return self.state in ALIVE

    @property
    def shown_state(self) -> str:
        """The state as it is shown: a running task may be paused, and one that is down be so for good."""
        if self.given_up and self.state is TaskState.DOWN:
            return "given up"
        return "paused" if self.paused and self.state is TaskState.RUNNING else self.state.value

    def speed(self, now: float) -> float | None:
        """Steps per second over the last reports of the present attempt; None if there are too few."""
        if len(self.reports) < 2 or not self.alive:
            return None
        (since, first), (until, last) = self.reports[0], self.reports[-1]
        seconds = (now if now - until > QUIET else until) - since
        return (last - first) / seconds if seconds > 0 else None

    def began(self, attempt: int) -> None:
        """A new attempt begins: forget all of the one before it but its exit and its step."""
        self.attempt, self.pid, self.started = attempt, None, None
        self.ready = self.paused = False
        self.resumed_step = self.straggling = self.debugger = None
        self.reports.clear()

    def progressed(self, at: float, event: ev.Progressed) -> None:
        """A step was reported."""
        self.step, self.metrics = event.step, event.metrics
        self.total = self.total if event.total is None else event.total
        if self.reports and event.step < self.reports[-1][1]:  # a program may count each epoch's steps anew
            self.reports.clear()
        self.reports.append((at, event.step))
        while at - self.reports[0][0] > WINDOW and len(self.reports) > 2:
            self.reports.popleft()


class RunStatus:
    """The state of a run and of its tasks, updated with each event."""

    def __init__(self, tasks: Iterable[Task], endpoints: Mapping[Task, str] | None = None) -> None:
        known = endpoints or {}
        self.tasks = {task: TaskStatus(task, known.get(task)) for task in tasks}
        self.began: float | None = None
        self.phase = RunPhase.STARTING
        self.reason = ""
        self.restarts = 0
        self.checkpoint: tuple[int, str] | None = None
        self.result: RunResult | None = None
        self.waits_for: tuple[Task, ...] = ()  # after the first Ctrl-C, for `grace` seconds
        self.grace = 0.0

    @property
    def attempts(self) -> int:
        """The number of attempts so far, of all tasks."""
        return sum(status.attempt for status in self.tasks.values())

    @property
    def step(self) -> int | None:
        """The highest of the tasks' last steps."""
        return max((status.step for status in self.tasks.values() if status.step is not None), default=None)

    @property
    def total(self) -> int | None:
        """How many steps there will be in all, as the tasks told; None if none did, or there are more already."""
        total = max((status.total for status in self.tasks.values() if status.total is not None), default=None)
        return None if total is None or (self.step or 0) > total else total

    def speed(self, now: float) -> float | None:
        """Steps per second of the fastest task."""
        return max((speed for of in self.tasks.values() if (speed := of.speed(now)) is not None), default=None)

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event that happened at wall time `at`."""
        match event:
            case ev.Began():
                self.began, self.phase = at, RunPhase.RUNNING
            case ev.Continued():
                self._continue()
            case ev.RestartPlanned():
                self.restarts += 1
                if self.phase is RunPhase.WAITING:
                    self.phase, self.reason = RunPhase.RUNNING, ""
            case ev.WaitsForChange(reason):
                self.phase, self.reason = RunPhase.WAITING, reason
            case ev.Shrunk(tasks):
                for task in tasks:
                    if status := self.tasks.get(task):
                        status.given_up = True
            case ev.Succeeded(task):
                self._stop(f"{task} exited with code 0")
            case ev.Stopping(reason, tasks, grace):
                self._stop(reason)
                self.waits_for, self.grace = (tasks, grace) if grace and event.interrupted else ((), 0.0)
            case ev.Interrupted():  # a second one: nobody waits any more
                self.waits_for = ()
            case ev.Finished(result):
                self._finish(result)
            case ev.Checkpointed(_, _, step, path):
                self.checkpoint = (step, path)
                self._of_task(at, event)
            case ev.FaultInjected() | ev.FaultTook() | ev.FaultHealed():
                self._of_fault(event)
            case ev.Placed(hosts, endpoints):
                for task, status in self.tasks.items():
                    status.host, status.endpoint = hosts.get(task), endpoints.get(task)
            case _:
                self._of_task(at, event)

    def _of_task(self, at: float, event: ev.Event) -> None:
        task, attempt = getattr(event, "task", None), getattr(event, "attempt", None)
        status = self.tasks.get(task) if isinstance(task, Task) else None
        if status is None or attempt is None or attempt < status.attempt:
            return
        match event:
            case ev.Changed(_, _, state):
                if attempt > status.attempt:
                    status.began(attempt)
                status.state, status.asked = state, event.asked
            case ev.Spawned():
                status.pid, status.started = event.pid, at
            case ev.Exited(_, _, exit_):
                status.last_exit, status.pid, status.paused = replace(exit_, asked=status.asked), None, False
                status.straggling = status.debugger = None
            case ev.AttemptEnded() if event.exit is not None:
                status.last_exit = event.exit
            case ev.Paused(_, _, paused):
                status.paused = paused
            case ev.Straggling():
                status.straggling = event
            case ev.KeepsUp():
                status.straggling = None
            case ev.InDebugger():
                status.debugger = event.place
            case ev.EditorAwaited() if event.waits:
                status.debugger = EDITOR
            case ev.LeftDebugger():
                status.debugger = None
            case ev.Progressed():
                status.progressed(at, event)
            case ev.Resumed(_, _, step):
                status.resumed_step = step
        status.ready |= isinstance(event, ev.Ready | ev.Progressed | ev.Resumed | ev.Checkpointed)

    def _of_fault(self, event: ev.FaultInjected | ev.FaultTook | ev.FaultHealed) -> None:
        if isinstance(event, ev.FaultInjected):
            for task in event.tasks if event.action not in AT_ONCE else ():
                if status := self.tasks.get(task):
                    status.faults[event.number] = event.action
        elif isinstance(event, ev.FaultHealed) or not event.done:
            for status in self.tasks.values():
                status.faults.pop(event.number, None)

    def _continue(self) -> None:
        """No process of the allocations before is left."""
        self.phase, self.reason, self.result = RunPhase.RUNNING, "", None
        self.waits_for, self.grace = (), 0.0
        for status in self.tasks.values():
            status.state = TaskState.DOWN if status.alive else status.state
            status.pid, status.straggling, status.ready, status.paused = None, None, False, False
            status.given_up, status.debugger = False, None

    def _stop(self, reason: str) -> None:
        self.phase, self.reason = RunPhase.STOPPING, self.reason or reason

    def _finish(self, result: RunResult) -> None:
        self.phase, self.result, self.reason = RunPhase.OVER, result, result.reason
        for attempt in result.attempts:  # in order: the last one stays
            if (status := self.tasks.get(attempt.task)) and attempt.exit is not None:
                status.last_exit = attempt.exit

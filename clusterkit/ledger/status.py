"""The state of a run and of each of its tasks, and the tasks that were slower than their peers."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from clusterkit.ledger.incident import Faults
from clusterkit.words import events as ev
from clusterkit.words.account import Straggler
from clusterkit.words.events import Straggling
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import ALIVE, Task, TaskState
from clusterkit.words.outcome import Asked, Exit, RunResult
from clusterkit.words.reports import metrics_of_first

WINDOW = 30.0  # seconds; the length of the period over which the speed is measured
QUIET = 5.0  # seconds; after this time without a report, the displayed speed decreases


class RunPhase(enum.StrEnum):
    """The phase of a run."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # the job failed; a change to its program restarts the tasks
    STOPPING = "stopping"
    OVER = "over"


@dataclass(slots=True)
class TaskStatus:
    """The state of a task. The fields from `started` (a wall time) on describe the current attempt."""

    task: Task
    endpoint: str | None = None
    host: str | None = None  # the name of the task's host, if the job runs on hosts
    state: TaskState = TaskState.WAITING
    end_request: Asked | None = None  # the reason why the task is being ended
    last_exit: Exit | None = None
    step: int | None = None
    total: int | None = None  # the step at which training ends, if the task has reported it
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    given_up: bool = False  # True once the job continues without the task
    faults: Mapping[int, FaultAction] = field(default_factory=dict)  # the task's open faults, by number
    last_reached_step: int | None = None  # the last step reported or resumed from since the process was spawned
    attempt: int = 0
    started: float | None = None
    pid: int | None = None
    ready: bool = False
    paused: bool = False
    resumed_step: int | None = None
    debugger: str | None = None  # the place where the debugger holds the task, such as `train.py:31 in step()`
    straggling: Straggler | None = None  # set while the task is slower than its peers
    reports: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def alive(self) -> bool:
        """Return whether the task has a process, or one is being started."""
        return self.state in ALIVE

    @property
    def shown_state(self) -> str:
        """Return the state for display, which may also be "paused" or "given up"."""
        if self.given_up and self.state is TaskState.DOWN:
            return "given up"
        return "paused" if self.paused and self.state is TaskState.RUNNING else self.state.value

    def speed(self, now: float) -> float | None:
        """Return the steps per second over the last reports of the current attempt; None if there are too few."""
        if len(self.reports) < 2 or not self.alive:
            return None
        (since, first), (until, last) = self.reports[0], self.reports[-1]
        seconds = (now if now - until > QUIET else until) - since
        return (last - first) / seconds if seconds > 0 else None

    def begin(self, attempt: int) -> None:
        """Begin a new attempt, and reset the fields about the previous one."""
        self.attempt, self.pid, self.started = attempt, None, None
        self.ready = self.paused = False
        self.resumed_step = self.straggling = self.debugger = None
        self.reports.clear()

    def progressed(self, wall: float, event: ev.Progressed) -> bool:
        """Note a report; return whether its step is new in this attempt."""
        is_new = not self.reports or event.step != self.reports[-1][1]
        self.ready, self.step, self.last_reached_step = True, event.step, event.step
        self.metrics = event.added_to(self.metrics)
        self.total = self.total if event.total is None else event.total
        if self.reports and event.step < self.reports[-1][1]:  # a program may restart its step counter with each epoch
            self.reports.clear()
        self.reports.append((wall, event.step))
        while wall - self.reports[0][0] > WINDOW and len(self.reports) > 2:
            self.reports.popleft()
        return is_new

    def exited(self, exit_: Exit) -> None:
        self.last_exit, self.paused = replace(exit_, asked=self.end_request), False
        self.pid = self.straggling = self.debugger = None

    def lost(self) -> None:
        """Note that the process is lost, since the run continues in another allocation."""
        self.state = TaskState.DOWN if self.alive else self.state
        self.pid = self.straggling = self.debugger = None
        self.ready = self.paused = self.given_up = False


class RunStatus:
    """The state of a run and of its tasks."""

    def __init__(self, tasks: Iterable[Task], endpoints: Mapping[Task, str] | None, faults: Faults) -> None:
        known = endpoints or {}
        self._faults = faults
        self.tasks = {task: TaskStatus(task, known.get(task), faults=faults.of_task(task)) for task in tasks}
        self._has_job = bool(self.tasks)
        self.began_at: float | None = None  # wall time
        self.clock_start = 0.0  # when the run began, on the clock of the events
        self.phase = RunPhase.STARTING
        self.reason = ""
        self.allocations = 0  # the number of supervisors that began or continued the run
        self.restarts = 0  # how often tasks were started again, together
        self._planned_restarts: list[frozenset[Task]] = []  # the tasks of each restart that has not begun
        self.checkpoint: tuple[int, str] | None = None
        self.resumed_checkpoint: tuple[int, str] | None = None  # the first checkpoint from which an attempt resumed
        self.saved_at: float | None = None  # when `checkpoint` was complete, in seconds since the run began
        self.trained_step: int | None = None  # the newest step that a training task reported
        self.result: RunResult | None = None
        self.successful_task: Task | None = None  # the task whose success made the job succeed
        self.stop_reason: str | None = None  # the reason why the run was ended for good
        self.orphaned = False  # True once a process that the run must not outlive has ended
        self.awaited_tasks: tuple[Task, ...] = ()  # tasks that have `grace` seconds to end after the first Ctrl-C
        self.grace = 0.0

    def give_up(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if (status := self.tasks.get(task)) is not None:
                status.given_up = True

    @property
    def attempts(self) -> int:
        return sum(status.attempt for status in self.tasks.values())

    @property
    def step(self) -> int | None:
        """Return the highest of the tasks' last steps."""
        return max((status.step for status in self.tasks.values() if status.step is not None), default=None)

    @property
    def total(self) -> int | None:
        """Return the step at which training ends, as reported by the tasks; None if unreported or already exceeded."""
        total = max((status.total for status in self.tasks.values() if status.total is not None), default=None)
        return None if total is None or (self.step or 0) > total else total

    @property
    def unsaved(self) -> int:
        """Return the number of steps after the newest checkpoint, which a restart would repeat."""
        saved = 0 if self.checkpoint is None else self.checkpoint[0]
        return max(0, (self.step or 0) - saved)

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Return the newest metrics of the first task that has any."""
        return metrics_of_first({task: of.metrics for task, of in self.tasks.items()})

    @property
    def pids(self) -> dict[Task, int]:
        return {task: of.pid for task, of in self.tasks.items() if of.alive and of.pid is not None}

    def speed(self, now: float) -> float | None:
        """Return the steps per second of the fastest task."""
        return max((speed for of in self.tasks.values() if (speed := of.speed(now)) is not None), default=None)

    def current(self, task: Task, attempt: int) -> TaskStatus | None:
        """Return the task's status; None if the attempt is older than the task's newest attempt."""
        status = self.tasks.get(task)
        if status is None and not self._has_job:  # job.json is missing or damaged, so the events name the tasks
            status = self.tasks[task] = TaskStatus(task, faults=self._faults.of_task(task))
        return None if status is None or attempt < status.attempt else status

    def resume(self) -> None:
        """Note that the run continues in another allocation; forget the run's previous end."""
        self.phase, self.reason, self.result, self.orphaned = RunPhase.RUNNING, "", None, False
        self.awaited_tasks, self.grace = (), 0.0
        self._planned_restarts.clear()
        self.allocations += 1
        for status in self.tasks.values():
            status.lost()

    def plan_restart(self, tasks: Iterable[Task]) -> None:
        """Note that tasks are about to restart. A plan replaces earlier plans for the same tasks."""
        planned = frozenset(tasks)
        self._planned_restarts = [one for one in self._planned_restarts if one.isdisjoint(planned)]
        self._planned_restarts.append(planned)
        if self.phase is RunPhase.WAITING:
            self.phase, self.reason = RunPhase.RUNNING, ""

    def is_restart_planned(self, task: Task) -> bool:
        """Return whether the restart of a task was decided, and has not begun."""
        return any(task in planned for planned in self._planned_restarts)

    def restarting(self, task: Task) -> None:
        """Count a planned restart, now that the first of its tasks starts again."""
        begun = [one for one in self._planned_restarts if task in one]
        self.restarts += len(begun)
        self._planned_restarts = [one for one in self._planned_restarts if task not in one]

    def succeed(self, task: Task) -> None:
        """Note that the leader exited with code 0."""
        self.successful_task, self.phase = task, RunPhase.STOPPING
        self.reason = self.reason or f"{task} exited with code 0"

    def stop(self, event: ev.Stopping) -> None:
        if not (event.suspends or self.orphaned):
            # A task of the gang may have failed after the success.
            self.stop_reason, self.successful_task = event.reason, None
        self.phase, self.reason = RunPhase.STOPPING, self.reason or event.reason
        self.awaited_tasks, self.grace = (event.tasks, event.grace) if event.grace and event.interrupted else ((), 0.0)

    def finish(self, result: RunResult) -> None:
        self.phase, self.result, self.reason = RunPhase.OVER, result, result.reason
        for attempt in result.attempts:  # attempts are in order, so the exit of the last one remains
            if (status := self.tasks.get(attempt.task)) and attempt.exit is not None:
                status.last_exit = attempt.exit

    def place(self, hosts: Mapping[Task, str], endpoints: Mapping[Task, str]) -> None:
        for task, status in self.tasks.items():
            status.host, status.endpoint = hosts.get(task), endpoints.get(task)


class Stragglers:
    """The periods during which a run's tasks were slower than their peers. Times are in seconds since the run began."""

    def __init__(self) -> None:
        self._open: dict[Task, Straggler] = {}
        self._ended: list[Straggler] = []

    def report(self) -> tuple[Straggler, ...]:
        return tuple(sorted([*self._ended, *self._open.values()], key=lambda one: (one.at, one.task)))

    def begin(self, now: float, event: Straggling) -> Straggler:
        at = max(0.0, now - event.seconds)
        one = Straggler(event.task, event.attempt, at, event.slowness, event.factor, event.why)
        self._open[event.task] = one
        return one

    def end(self, now: float, task: Task) -> None:
        if (one := self._open.pop(task, None)) is not None:
            self._ended.append(replace(one, until=now))

    def all_lost(self, now: float) -> None:
        """End the periods of all current stragglers, since the run continues in another allocation."""
        for task in list(self._open):
            self.end(now, task)

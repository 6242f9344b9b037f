"""Injected faults and incidents. An incident lasts from a failure, which is then repaired, until the first new step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from clusterkit.words.account import Death, InjectedFault, Recovery, Return
from clusterkit.words.events import FaultInjected, Shrunk
from clusterkit.words.faults import AT_ONCE, FaultAction
from clusterkit.words.model import Task, TaskType


class RecoveryTime(NamedTuple):
    """The cost of a recovery that has ended, or of an injected fault that only interrupted training."""

    seconds: float
    lost: int  # the number of steps that were repeated


@dataclass(slots=True)
class TrainingCourse:
    """Whether training continued during an incident, or when the first step after the incident was completed."""

    continued: bool = False
    first_step: float | None = None
    _step_before: int | None = None

    @property
    def settled(self) -> bool:
        return self.continued or self.first_step is not None

    def progressed(self, now: float, step: int, lasts: bool) -> None:
        """Note a reported step. `lasts` is True until the incident ends.

        The first step that is reported in an incident may have been made before the incident.
        """
        if self.settled:
            return
        if not lasts:
            self.first_step = now
        elif self._step_before is None:
            self._step_before = step
        elif step > self._step_before:
            self.continued = True


@dataclass(slots=True, eq=False)
class Incident:
    """One recovery. Training completes no new step until the `trainers`, its restarting training tasks, are up.

    The first of `deaths` is the cause. `same` are the tasks that failed independently with the same error.
    `needed_tasks` must be running before a new step is possible: the whole gang, or the coordinator and its parameter
    servers.
    """

    deaths: list[Death]
    detected: float | None
    same: frozenset[Task] = frozenset()
    requested: bool = False
    files: tuple[str, ...] = ()  # the changed files that caused the restart
    host: str | None = None  # the leaving host that caused the restart
    allocation: int | None = None
    shrinking: Shrunk | None = None
    allocation_ended: float | None = None  # when the previous allocation ended
    planned: float | None = None
    returns: dict[Task, Return] = field(default_factory=dict)
    trainers: frozenset[Task] = frozenset()
    course: TrainingCourse = field(default_factory=TrainingCourse)
    last_step: int | None = None
    resumed: tuple[int, str | None] | None = None
    first_report: int | None = None
    needed_tasks: frozenset[Task] = frozenset()
    last_missing: Task | None = None  # the task in `needed_tasks` that was not running at the last check
    up: float | None = None  # when the last of the restarted tasks was up again
    _tasks_down: set[Task] = field(default_factory=set)
    _resumed_by: tuple[int, Task] | None = None

    @property
    def is_final(self) -> bool:
        """Return whether no later event can change the incident."""
        return self.course.settled and (self.up is not None or self.planned is None)

    @property
    def ended(self) -> float | None:
        """Return the time of the first new step; if no training task restarted, when the last task was up."""
        return self.course.first_step if self.trainers else self.up

    @property
    def began(self) -> float:
        """Return when the first task died, or when the restart was requested."""
        return min([death.at for death in self.deaths], default=self.allocation_ended or self.planned or 0.0)

    @property
    def faults(self) -> tuple[int, ...]:
        """Return the numbers of the injected faults that explain the deaths."""
        return tuple(sorted({death.fault for death in self.deaths if death.fault is not None}))

    @property
    def kept_step(self) -> int:
        """Return the last step that the restarted tasks did not have to repeat."""
        return self.resumed[0] if self.resumed is not None else (self.first_report or 1) - 1

    def plan(self, now: float, returns: Sequence[Return], trainers: frozenset[Task]) -> None:
        """Note the decided restart: `returns` are all restarting tasks, `trainers` the training tasks among them."""
        self.planned, self.trainers = now, trainers
        self.returns = {one.task: one for one in returns}
        self._tasks_down = set(self.returns)
        if trainers:
            servers = frozenset(task for task in self.returns if task.type is TaskType.PS)
            self.needed_tasks = trainers | servers if servers else trainers  # without servers, restarts share one set
            self.course = TrainingCourse()  # forget the steps of the previous attempts

    def has_attempt(self, task: Task, attempt: int) -> bool:
        """Return whether the attempt began with this restart, or later."""
        return task in self.returns and attempt >= self.returns[task].attempt

    def spawned(self, task: Task, attempt: int, now: float, reached: int | None) -> None:
        """Note the process of a restarted task, whose previous attempt had reached the step `reached`."""
        if task not in self.returns or self.returns[task].attempt != attempt:
            return
        self.returns[task] = replace(self.returns[task], spawned=now)
        if task in self.trainers and reached is not None:
            self.last_step = max(reached, self.last_step or 0)

    def mark_up(self, task: Task, now: float) -> None:
        if self.returns[task].up is None:
            self.returns[task] = replace(self.returns[task], up=now)
            self._tasks_down.discard(task)
            self.up = None if self._tasks_down else now

    def resumed_at(self, task: Task, attempt: int, step: int, path: str | None) -> None:
        """Note where a program resumed. The newest attempt's report counts; in a gang, the leader's report.

        Of several reports of one attempt, such as those of two calls of `fit`, the last step counts.
        """
        if task not in self.trainers or self.course.settled:
            return
        if self._resumed_by == (attempt, task) and self.resumed is not None and step > self.resumed[0]:
            self.resumed = (step, path)
        if self._resumed_by is None or (-attempt, task) < (-self._resumed_by[0], self._resumed_by[1]):
            self._resumed_by, self.resumed = (attempt, task), (step, path)

    def progressed(self, now: float, task: Task, attempt: int, step: int) -> None:
        if not self.trainers:
            self.course.progressed(now, step, self.up is None)
        elif task in self.trainers and self.has_attempt(task, attempt) and not self.course.settled:
            self._first_new_step(now, step)

    def _first_new_step(self, now: float, step: int) -> None:
        if step > (0 if self.resumed is None else self.resumed[0]):
            self.first_report, self.course.first_step = step, now
            for task in self.needed_tasks:
                self.mark_up(task, now)

    def report(self, at: float) -> Recovery:
        """Return the recovery as known so far. `at` is the time when the recovery began."""
        return Recovery(
            at=at,
            asked=self.requested,
            files=self.files,
            cause=self.deaths[0] if self.deaths else None,
            collateral=tuple(death for death in self.deaths[1:] if death.task not in self.same),
            faults=self.faults,
            detected=self.detected,
            planned=self.planned,
            returns=tuple(self.returns[task] for task in sorted(self.returns)),
            training=bool(self.trainers) and self.planned is not None,
            went_on=self.course.continued,
            first_step=self.course.first_step,
            last_step=self.last_step,
            resumed_step=None if self.resumed is None else self.resumed[0],
            checkpoint=None if self.resumed is None else self.resumed[1],
            lost=self._lost_steps(),
            ended=self.ended,
            same=tuple(death for death in self.deaths[1:] if death.task in self.same),
            allocation=self.allocation,
            given_up=() if self.shrinking is None else self.shrinking.tasks,
            left=None if self.shrinking is None else len(self.shrinking.left),
            host=self.host,
        )

    def _lost_steps(self) -> int | None:
        if not self.trainers:
            return 0 if self.planned is not None or self.course.continued else None
        if self.resumed is not None:
            return max(0, (self.last_step or 0) - self.resumed[0])
        if self.first_report is not None:
            return max(0, (self.last_step or 0) - self.first_report + 1)
        return None


# The supervisor injects these faults itself. For other faults, the backend reports whether the injection succeeded.
_BY_SUPERVISOR = frozenset({FaultAction.KILL, FaultAction.TERM, FaultAction.STOP, FaultAction.HANG_START})


@dataclass(slots=True)
class FaultRecord:
    """One injected fault. Times are in seconds since the run began."""

    event: FaultInjected
    began: float
    healed: float | None = None
    heal_reason: str = ""
    detail: str = ""
    injected: bool | None = None  # None until the backend has answered
    stalled: float | None = None  # the time of the first stall warning while the fault was open
    course: TrainingCourse = field(default_factory=TrainingCourse)

    @property
    def is_certain(self) -> bool:
        return self.injected is True or self.event.action in _BY_SUPERVISOR

    def report(self, failures: Sequence[tuple[Task, float]]) -> InjectedFault:
        """Return the fault as known so far. `failures` are those that the fault explains, with detection times."""
        event, done = self.event, self.injected is not False
        detected = [at for _, at in failures]
        if done and self.stalled is not None:
            detected.append(self.stalled)
        return InjectedFault(
            number=event.number,
            fault=event.fault,
            action=event.action,
            tasks=event.tasks,
            others=event.others,
            seconds=event.seconds,
            step=event.step,
            injected=self.began,
            detail=self.detail,
            done=done,
            healed=self.healed,
            why=self.heal_reason,
            detected=min(detected, default=None),
            died=tuple(task for task, _ in failures),
            went_on=self.course.continued and not failures,
            first_step=None if failures else self.course.first_step,
        )


class Faults:
    """The injected faults of a run, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, FaultRecord] = {}
        self.open: dict[int, FaultInjected] = {}  # faults in effect
        self.unsettled: dict[int, FaultRecord] = {}  # faults whose effect on training is not yet known
        self._by_task: dict[Task, dict[int, FaultAction]] = {}

    def of_task(self, task: Task) -> Mapping[int, FaultAction]:
        """Return a task's open faults by number. The returned mapping is kept up to date."""
        return self._by_task.setdefault(task, {})

    def inject(self, now: float, event: FaultInjected) -> None:
        self.by_number[event.number] = self.unsettled[event.number] = FaultRecord(event, now)
        if event.action not in AT_ONCE:
            self.open[event.number] = event
            for task in event.tasks:
                self._by_task.setdefault(task, {})[event.number] = event.action

    def injection_reported(self, number: int, detail: str, done: bool) -> None:
        """Note whether the backend injected the fault. There may be one answer for each task that the fault affects."""
        if (fault := self.by_number.get(number)) is not None:
            fault.detail = detail if fault.injected is None else f"{fault.detail}; {detail}"
            fault.injected = done or fault.injected is True
            if not fault.injected:
                self._close(number)

    def heal(self, now: float, number: int, why: str) -> None:
        if (fault := self.by_number.get(number)) is not None:
            fault.healed, fault.heal_reason = now, why
        self._close(number)

    def stall(self, now: float) -> None:
        for number in self.open:
            if self.by_number[number].stalled is None:
                self.by_number[number].stalled = now

    def times(self, numbers: Sequence[int]) -> list[float]:
        """Return when these faults were injected. Unknown numbers, as in a damaged journal, are ignored."""
        return [self.by_number[number].began for number in numbers if number in self.by_number]

    def _close(self, number: int) -> None:
        if (event := self.open.pop(number, None)) is not None:
            for task in event.tasks:
                self._by_task[task].pop(number, None)

"""An incident: one recovery, from the failures that it repairs to the first new step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from clusterkit.words.events import Shrunk
from clusterkit.words.model import Task, TaskType
from clusterkit.words.recovery import Death, Recovery, Return


class Ended(NamedTuple):
    """A recovery that has ended, or an injected fault that only held training up."""

    seconds: float
    lost: int  # steps that had to be computed again


@dataclass(slots=True)
class Course:
    """Whether training continued during an incident, or when it made its first step afterwards."""

    went_on: bool = False
    first_step: float | None = None
    _before: int | None = None

    @property
    def settled(self) -> bool:
        """Whether that is known."""
        return self.went_on or self.first_step is not None

    def progressed(self, now: float, step: int, wrong: bool) -> None:
        """A step was reported; `wrong`: the incident lasts. A single step may have been made before it began."""
        if self.settled:
            return
        if not wrong:
            self.first_step = now
        elif self._before is None:
            self._before = step
        elif step > self._before:
            self.went_on = True


@dataclass(slots=True, eq=False)
class Incident:
    """One recovery. `trainers` are the training tasks in it: there is no new step before they restart.

    The first of `deaths` is the cause. `same` are the tasks that failed on their own with the cause's error. A new step
    `needs` the whole gang, or the coordinator and its parameter servers.
    """

    deaths: list[Death]
    detected: float | None
    same: frozenset[Task] = frozenset()
    asked: bool = False
    files: tuple[str, ...] = ()  # that changed, which is why it restarts
    host: str | None = None  # that was about to leave, which is why
    allocation: int | None = None
    shrunk: Shrunk | None = None
    left: float | None = None  # when the allocation before that had ended
    planned: float | None = None
    returns: dict[Task, Return] = field(default_factory=dict)
    trainers: frozenset[Task] = frozenset()
    course: Course = field(default_factory=Course)
    last_step: int | None = None
    resumed: tuple[int, str | None] | None = None
    first_report: int | None = None
    needs: frozenset[Task] = frozenset()
    missed: Task | None = None  # one of those, which did not live when it was looked at last
    up: float | None = None  # when the last of its tasks was up again
    _down: set[Task] = field(default_factory=set)
    _resumed_by: tuple[int, Task] | None = None

    @property
    def over(self) -> bool:
        """Whether no later event can change it."""
        return self.course.settled and (self.up is not None or self.planned is None)

    @property
    def ended(self) -> float | None:
        """When the first new step was made; if no training task restarted, when the last task was up."""
        return self.course.first_step if self.trainers else self.up

    @property
    def began(self) -> float:
        """When the first task died, or the restart was requested."""
        return min([death.at for death in self.deaths], default=self.left or self.planned or 0.0)

    @property
    def faults(self) -> tuple[int, ...]:
        """The injected faults that explain its deaths."""
        return tuple(sorted({death.fault for death in self.deaths if death.fault is not None}))

    def plan(self, now: float, returns: Sequence[Return], trainers: frozenset[Task]) -> None:
        """The restart is decided: these come back, and with them these training tasks."""
        self.planned, self.trainers = now, trainers
        self.returns = {one.task: one for one in returns}
        self._down = set(self.returns)
        if trainers:
            servers = frozenset(task for task in self.returns if task.type is TaskType.PS)
            self.needs = trainers | servers if servers else trainers  # a set for each of thousands of restarts is much
            self.course = Course()  # steps of the old attempts do not count

    def concerns(self, task: Task, attempt: int) -> bool:
        """Whether this is the attempt of a task that restarts here, or a later one."""
        return task in self.returns and attempt >= self.returns[task].attempt

    def spawned(self, task: Task, attempt: int, now: float, reached: int | None) -> None:
        """The process of a new attempt exists. The attempt before it had reached step `reached`."""
        if task not in self.returns or self.returns[task].attempt != attempt:
            return
        self.returns[task] = replace(self.returns[task], spawned=now)
        if task in self.trainers and reached is not None:
            self.last_step = max(reached, self.last_step or 0)

    def mark_up(self, task: Task, now: float) -> None:
        """The task is up."""
        if self.returns[task].up is None:
            self.returns[task] = replace(self.returns[task], up=now)
            self._down.discard(task)
            self.up = None if self._down else now

    def resumes(self, task: Task, attempt: int, step: int, path: str | None) -> None:
        """The program reported where it resumed. The newest attempt's report counts, and in a gang the leader's."""
        if task not in self.trainers or self.course.settled:
            return
        if self._resumed_by is None or (-attempt, task) < (-self._resumed_by[0], self._resumed_by[1]):
            self._resumed_by, self.resumed = (attempt, task), (step, path)

    def progressed(self, now: float, task: Task, attempt: int, step: int) -> None:
        """A training task reported a step."""
        if not self.trainers:
            self.course.progressed(now, step, self.up is None)
        elif task in self.trainers and self.concerns(task, attempt) and not self.course.settled:
            self._new_step(now, step)

    def _new_step(self, now: float, step: int) -> None:
        if self.resumed is None or step > self.resumed[0]:
            self.first_report, self.course.first_step = step, now
            for task in self.needs:
                self.mark_up(task, now)

    def recovery(self, at: float) -> Recovery:
        """The recovery as far as it is known; `at` is when it began."""
        return Recovery(
            at=at,
            asked=self.asked,
            files=self.files,
            cause=self.deaths[0] if self.deaths else None,
            collateral=tuple(death for death in self.deaths[1:] if death.task not in self.same),
            faults=self.faults,
            detected=self.detected,
            planned=self.planned,
            returns=tuple(self.returns[task] for task in sorted(self.returns)),
            training=bool(self.trainers) and self.planned is not None,
            went_on=self.course.went_on,
            first_step=self.course.first_step,
            last_step=self.last_step,
            resumed_step=None if self.resumed is None else self.resumed[0],
            checkpoint=None if self.resumed is None else self.resumed[1],
            lost=self._lost(),
            ended=self.ended,
            same=tuple(death for death in self.deaths[1:] if death.task in self.same),
            allocation=self.allocation,
            given_up=() if self.shrunk is None else self.shrunk.tasks,
            left=None if self.shrunk is None else len(self.shrunk.left),
            host=self.host,
        )

    def _lost(self) -> int | None:
        if not self.trainers:
            return 0 if self.planned is not None or self.course.went_on else None
        if self.resumed is not None:
            return max(0, (self.last_step or 0) - self.resumed[0])
        if self.first_report is not None:
            return max(0, (self.last_step or 0) - self.first_report + 1)
        return None

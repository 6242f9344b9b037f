"""Start-up: the stages of each task's first attempt, and the critical chain of stages up to the first step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from clusterkit.words.account import ChainLink, Startup, TaskStart
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.reports import Stage

ORDER = tuple(Stage)
Starts = Mapping[Task, TaskStart]
Reached = tuple[float, Task, Stage | None]


class StartupLog:
    """The times at which each task's first attempt reached its stages, in seconds since the run began."""

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._starts = {task: TaskStart(task) for task in job.tasks}
        self._unstepped = set(job.steppers)  # tasks that have not completed a step yet
        self._resumed: dict[Task, int] = {}  # the step at which each task resumed
        self._first_stepper: Task | None = None

    def report(self) -> Startup:
        chain = () if self._first_stepper is None else tuple(chain_of(self._job, self._starts, self._first_stepper))
        return Startup(tuple(self._starts[task] for task in sorted(self._starts)), chain)

    def reach(self, now: float, task: Task, attempt: int, stage: Stage, step: int = 0) -> None:
        """Note that an attempt reached a stage. `step` is the step completed (STEPPED) or resumed from (PREPARED).

        The first report of a stage counts; for PREPARED, the last report before the first step.
        """
        if not self._unstepped or attempt != 1 or (start := self._starts.get(task)) is None:
            return
        if stage is Stage.STEPPED:
            if task not in self._unstepped or step <= self._resumed.get(task, 0):
                return
            self._first_stepper = self._first_stepper or task
            self._unstepped.discard(task)
        elif step:
            self._resumed[task] = step
        if start.at(stage) is None or (stage is Stage.PREPARED and start.stepped is None):
            self._starts[task] = replace(start, **{stage.value: now})  # type: ignore[arg-type]

    def spawned(self, now: float, task: Task, attempt: int, forked: bool) -> None:
        self.reach(now, task, attempt, Stage.SPAWNED)
        if task in self._starts and attempt == 1 and self._unstepped:
            self._starts[task] = replace(self._starts[task], forked=forked)

    def exited(self, task: Task, attempt: int) -> None:
        """Note that the attempt has ended, so that no first step is expected from it."""
        if attempt == 1:
            self._unstepped.discard(task)


def chain_of(job: JobSpec, starts: Starts, first: Task) -> list[ChainLink]:
    """Return the critical chain, from the beginning of the run to the first step, which the task `first` completed.

    The chain is traced backwards from the first step. A stage waits for the previous stages of the same task. The
    strategy (CONNECTED) also waits for the slowest peer, and the start of a coordinator (BEGUN) for its servers.
    """
    links = list[ChainLink]()
    task, stage = first, Stage.STEPPED
    end = starts[task].at(stage)
    while end is not None:
        found = [*_own_stages(starts[task], stage, end), *_awaited_stages(job, starts, task, stage, end)]
        begin, of, reached = max(found, default=(0.0, task, None))
        links += [ChainLink(task, stage, begin, end)] * (end > begin)
        if reached is None:
            break
        task, stage, end = of, reached, begin
    return links[::-1]


def _own_stages(start: TaskStart, stage: Stage, end: float) -> Iterator[Reached]:
    """Yield the earlier stages that the task reached no later than `end`, with their times."""
    for earlier in ORDER[: ORDER.index(stage)]:
        at = start.at(earlier)
        if at is not None and at <= end:
            yield at, start.task, earlier


def _awaited_stages(
    job: JobSpec, starts: Mapping[Task, TaskStart], task: Task, stage: Stage, end: float
) -> Iterator[Reached]:
    """Yield the stages of other tasks for which the stage may have waited until `end`, with their times."""
    if job.shape is Shape.SINGLE or not task.trains or job.is_server(task):
        return
    waits = {Stage.BEGUN, Stage.CONNECTED} if job.shape is Shape.PARAMETER_SERVER else {Stage.CONNECTED}
    if stage not in waits:
        return
    for other in starts.values():
        if other.task == task or other.task.type is TaskType.EVALUATOR:
            continue
        ends = (Stage.SERVING,) if job.is_server(other.task) else (Stage.IMPORTED, Stage.SPAWNED)
        for reached in ends:
            at = other.at(reached)
            if at is not None and at <= end:
                yield at, other.task, reached
                break

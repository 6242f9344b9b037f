"""Start-up, as a fold over the events of a run: each task's first attempt, and the critical chain to the first step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.startup import Link, Stage, Startup, TaskStart
from clusterkit.words.states import TaskState

ORDER = tuple(Stage)
Starts = Mapping[Task, TaskStart]
Reached = tuple[float, Task, Stage | None]


class StartupFold:
    """Takes each event of a run with its time in seconds, until the first step; reports at any time what is known."""

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._began: float | None = None
        self._starts = {task: TaskStart(task) for task in job.tasks}
        self._missing = {task for task in job.tasks if task.trains and not job.is_server(task)}  # have made no step
        self._resumed: dict[Task, int] = {}  # the step that each began at
        self._first: Task | None = None

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event."""
        self._began = at if self._began is None else self._began
        if not self._missing:
            return
        now = at - self._began
        match event:
            case ev.Changed(task, 1, TaskState.STARTING):
                self._reach(task, Stage.BEGUN, now)
            case ev.Spawned(task, 1, forked=forked):
                self._reach(task, Stage.SPAWNED, now)
                self._set(task, forked=forked)
            case ev.Ready(task, 1):
                self._reach(task, Stage.SERVING, now)
            case ev.SigtermHandled(task, 1):  # it is reported when a gang's strategy is made
                self._reach(task, Stage.CONNECTED, now)
            case ev.Reached(task, 1, stage):
                self._reach(task, stage, now)
            case ev.Resumed(task, 1, step):
                self._reach(task, Stage.PREPARED, now)
                self._resumed[task] = step
            case ev.Progressed(task, 1, step) if task in self._missing and step > self._resumed.get(task, 0):
                self._reach(task, Stage.STEPPED, now)
                self._first = self._first or task
                self._missing.discard(task)
            case ev.Exited(task, 1) | ev.SpawnFailed(task, 1):
                self._missing.discard(task)
            case _:
                pass

    def report(self) -> Startup:
        """What is known so far."""
        chain = () if self._first is None else tuple(chain_of(self._job, self._starts, self._first))
        return Startup(tuple(self._starts[task] for task in sorted(self._starts)), chain)

    def _reach(self, task: Task, stage: Stage, now: float) -> None:
        """The first report of a stage counts; but of the preparations the last one before the step."""
        start = self._starts.get(task)
        if start is not None and (start.at(stage) is None or (stage is Stage.PREPARED and start.stepped is None)):
            self._set(task, **{stage.value: now})

    def _set(self, task: Task, **fields: float | bool) -> None:
        if task in self._starts:
            self._starts[task] = replace(self._starts[task], **fields)  # type: ignore[arg-type]


def chain_of(job: JobSpec, starts: Starts, first: Task) -> list[Link]:
    """The critical chain, from the beginning of the run to the first step of the task that made it.

    It is followed backwards. A stage waited for what the same task had reached before; a strategy also for the slowest
    of the peers, and a chief that is started late for the servers.
    """
    links = list[Link]()
    task, stage = first, Stage.STEPPED
    end = starts[task].at(stage)
    while end is not None:
        found = [*_before(starts[task], stage, end), *_waited_for(job, starts, task, stage, end)]
        begin, of, reached = max(found, default=(0.0, task, None))
        links += [Link(task, stage, begin, end)] * (end > begin)
        if reached is None:
            break
        task, stage, end = of, reached, begin
    return links[::-1]


def _before(start: TaskStart, stage: Stage, end: float) -> Iterator[Reached]:
    """What the task itself had reached before a stage."""
    for earlier in ORDER[: ORDER.index(stage)]:
        at = start.at(earlier)
        if at is not None and at <= end:
            yield at, start.task, earlier


def _waited_for(
    job: JobSpec, starts: Mapping[Task, TaskStart], task: Task, stage: Stage, end: float
) -> Iterator[Reached]:
    """What others had reached that the stage can have waited for."""
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


def startup(job: JobSpec, events: Iterable[tuple[float, ev.Event]]) -> Startup:
    """The start-up in these events, each with its time in seconds."""
    fold = StartupFold(job)
    for at, event in events:
        fold.take(at, event)
    return fold.report()

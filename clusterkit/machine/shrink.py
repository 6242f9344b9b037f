"""Shrinking: which workers are given up so that the job continues with the others, where it would fail otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from clusterkit.machine.blame import Blame, looks_collateral
from clusterkit.machine.restart import can_be_collateral, restart_scope
from clusterkit.words.job import JobSpec, RestartPolicy
from clusterkit.words.model import Shape, Task, TaskType


def workers_of(job: JobSpec) -> tuple[Task, ...]:
    """The workers that are not given up."""
    return tuple(task for task in job.tasks if task.type is TaskType.WORKER)


def given_up(job: JobSpec, blamed: Blame, repeated: bool, moved: Collection[Task]) -> tuple[Task, ...]:
    """The workers to give up for a failure that nothing is left to restart for; none where the job has to fail.

    `moved` are the tasks that were lost with their host in the last recovery, and wait for a place on another one. A
    chief and a parameter server are never given up. Nor is a worker where that would not help: the program fails the
    same way each time, or in several tasks, or can't be started at all; or nobody can say whose failure it is.
    """
    least = job.restart.min_workers
    if least is None or job.restart.policy is RestartPolicy.NEVER or repeated:
        return ()
    lost = tuple(sorted(task for task in _broken(job, blamed, moved) if task.type is TaskType.WORKER))
    return lost if len(workers_of(job)) - len(lost) >= least else ()


def _broken(job: JobSpec, blamed: Blame, moved: Collection[Task]) -> Iterable[Task]:
    """The tasks whose own failure it is."""
    cause = blamed.cause
    if cause.exit.host is not None:
        return {failure.task for failure in (cause, *blamed.same, *blamed.collateral) if failure.exit.host is not None}
    if cause.exit.crowded:
        return moved
    known = not (looks_collateral(cause) and can_be_collateral(job, cause.task))
    can_start = cause.exit.error is None or cause.exit.unfit
    return {cause.task} if known and can_start and not blamed.same else ()


def needs_coordinator(job: JobSpec, started: dict[Task, float], stepped: bool) -> bool:
    """Whether the coordinator of a parameter-server job has to restart when a worker is given up.

    `started` is when the present attempt of each task that is left started. TensorFlow connects the coordinator to all
    of its workers at once, when it begins and whenever one of them comes back. If one never does, the others are not
    used either: so it has to have them all by now, which it has if it `stepped` with those that it began with.
    """
    servers = [task for task in workers_of(job) if task in started]
    return not stepped or any(started[task] > started[job.leader] for task in servers)


def scope_of(job: JobSpec, known: Collection[Task], task: Task, moves: bool = False) -> frozenset[Task]:
    """The tasks that restart with this one, of those that are left.

    `known` are the workers that were given up before the coordinator started. When a worker comes back, that waits for
    all others which it knows, so it has to restart if one of them never does.
    """
    scope = restart_scope(job, task, moves=moves)
    outdated = job.shape is Shape.PARAMETER_SERVER and set(known) != set(job.given_up)
    return scope | {job.leader} if outdated and task.type is TaskType.WORKER else scope


def true_name(task: Task, gone: Collection[Task]) -> Task:
    """The name of the task that TensorFlow counts as `task`, where those that are `gone` have no number."""
    index = task.index
    for one in sorted(gone):
        index += one.type is task.type and one.index <= index
    return Task(task.type, index)

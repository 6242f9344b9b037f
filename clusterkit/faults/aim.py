"""Aim: which tasks a fault is meant for, and whether this job can have it at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from clusterkit.words.faults import ON_NETWORK, Fault, FaultAction, Moment, Target
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Task

Draw = Callable[[int], float]  # the nth number in [0, 1) of this fault


def problems_of(fault: Fault, job: JobSpec) -> Iterator[str]:
    """Why the job can't have the fault, in sentences."""
    for target in (*fault.targets, *fault.others):
        among = _among(target, job.tasks)
        if not among:
            yield f"The fault '{fault}': the job has no task {target}."
        elif target.count is not None and target.count > len(among):
            yield f"The fault '{fault}': {target} is more than the {len(among)} tasks that there are."
    if fault.action in ON_NETWORK and job.network is not Network.VIRTUAL:
        yield (
            f"The fault '{fault}' needs --network virtual: on the host's network the tasks share one address, "
            f"and nothing can come between them."
        )
    if fault.action in ON_NETWORK and len(job.tasks) < 2:
        yield f"The fault '{fault}': a job of one task has no network."


def live_problems_of(fault: Fault, job: JobSpec) -> Iterator[str]:
    """Why a job that is running already can't have the fault."""
    yield from problems_of(fault, job)
    known = job.network is Network.VIRTUAL or needs_disk(job.faults)
    if fault.action is FaultAction.DISK_FULL and not known:
        yield (
            f"The fault '{fault}': this run's tasks see the checkpoint directory as it is. Start the run with "
            f"--network virtual, or with a disk-full fault."
        )


def needs_disk(faults: Collection[Fault]) -> bool:
    """Whether the tasks need a view of the checkpoint directory that can be filled up."""
    return any(fault.action is FaultAction.DISK_FULL for fault in faults)


def waits_for_steps(job: JobSpec) -> bool:
    """Whether a fault of the job comes at a step."""
    return any(fault.trigger is not None and fault.trigger.moment is Moment.STEP for fault in job.faults)


def aim(fault: Fault, tasks: Sequence[Task], draw: Draw) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """The tasks on the near and on the far side; the far side is empty but for faults of the network."""
    near = _chosen(fault.targets, tasks, draw, 0)
    if fault.action not in ON_NETWORK:
        return near, ()
    rest = [task for task in tasks if task not in near]
    return near, _chosen(fault.others, rest, draw, len(near)) if fault.others else tuple(rest)


def _chosen(targets: Sequence[Target], tasks: Sequence[Task], draw: Draw, drawn: int) -> tuple[Task, ...]:
    chosen: list[Task] = []
    for target in targets:
        among = [task for task in _among(target, tasks) if task not in chosen]
        left_out = 0 if target.count is None else max(0, len(among) - target.count)
        while len(among) > left_out:
            nth = int(draw(drawn) * len(among)) if left_out else 0
            drawn += left_out > 0
            chosen.append(among.pop(nth))
    return tuple(sorted(chosen))


def _among(target: Target, tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if target.type in (None, task.type) and target.index in (None, task.index)]

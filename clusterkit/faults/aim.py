"""Selects the tasks that a fault hits, and checks whether a job supports the fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from clusterkit.text.spelling import listed
from clusterkit.words.faults import ON_NETWORK, Fault, FaultAction, Moment, Target
from clusterkit.words.job import JobSpec, Network, Servers
from clusterkit.words.model import Task

DrawNumber = Callable[[int], float]  # returns the nth random number of a fault, in [0, 1)


def problems_of(fault: Fault, job: JobSpec) -> Iterator[str]:
    """Yield a sentence for each reason why the job does not support the fault."""
    for target in (*fault.targets, *fault.others):
        candidates = _matching(target, job.tasks)
        if not candidates:
            yield f"The fault '{fault}': the job has no task {target}."
        elif target.count is not None and target.count > len(candidates):
            yield f"The fault '{fault}': {target} needs more tasks than the {len(candidates)} that match."
    if fault.action in ON_NETWORK and job.network is not Network.VIRTUAL:
        yield (
            f"The fault '{fault}' needs --network virtual: on the host's network all tasks share one address, "
            "so their connections can't be impaired."
        )
    if fault.action in ON_NETWORK and len(job.tasks) < 2:
        yield f"The fault '{fault}' needs at least two tasks."
    served = [task for task in sorted(targets_of(fault, job.tasks)) if job.is_server(task)]
    if waits_for_phase(fault) and job.servers is Servers.BUILTIN and served:
        what = "is clusterkit's own server" if len(served) == 1 else "are clusterkit's own servers"
        yield f"The fault '{fault}': {listed(served)} {what}, not a Python program that reports its phases."


def live_problems_of(fault: Fault, job: JobSpec) -> Iterator[str]:
    """Yield a sentence for each reason why a running job does not support the fault."""
    yield from problems_of(fault, job)
    if waits_for_phase(fault):
        yield (
            f"The fault '{fault}': the tasks have to know from their start which phases to report. Start the run with "
            f"--fault '{fault}'."
        )
    can_fill_disk = job.network is Network.VIRTUAL or needs_disk(job.faults)
    if fault.action is FaultAction.DISK_FULL and not can_fill_disk:
        yield (
            f"The fault '{fault}': this run's tasks use the checkpoint directory directly. Start the run "
            "with --network virtual or with a disk-full fault."
        )


def needs_disk(faults: Collection[Fault]) -> bool:
    """Return whether a fault fills up the checkpoint directory, which tasks must then access in a mount namespace."""
    return any(fault.action is FaultAction.DISK_FULL for fault in faults)


def waits_for_steps(job: JobSpec) -> bool:
    return job.tells_every_step or any(
        fault.trigger is not None and fault.trigger.moment is Moment.STEP for fault in job.faults
    )


def waits_for_phase(fault: Fault) -> bool:
    return fault.trigger is not None and fault.trigger.moment is Moment.PHASE


def targets_of(fault: Fault, tasks: Sequence[Task]) -> set[Task]:
    """Return every task that the fault may hit: all tasks if the fault names no target, as storage faults do."""
    return {task for target in fault.targets or (Target(),) for task in _matching(target, tasks)}


def phases_of(job: JobSpec, task: Task) -> str:
    """Return the phases that trigger faults of the task, each as NAME:REPORTED:WAITED, separated by spaces.

    In each attempt, the task reports the first REPORTED occurrences of the phase, and pauses for the fault at the first
    WAITED occurrences. The task does not pause for a fault that is injected some time `after` the phase.
    """
    numbers: dict[str, tuple[int, int]] = {}
    for fault in job.faults:
        trigger = fault.trigger
        if trigger is not None and trigger.phase is not None and task in targets_of(fault, job.tasks):
            reported, waited = numbers.get(trigger.phase, (0, 0))
            number = int(trigger.at)
            numbers[trigger.phase] = max(reported, number), max(waited, 0 if trigger.after else number)
    return " ".join(f"{phase}:{reported}:{waited}" for phase, (reported, waited) in numbers.items())


def choose_targets(
    fault: Fault, tasks: Sequence[Task], draw: DrawNumber, first: Task | None = None
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the target tasks and, for network faults, the tasks at the other end of the impaired connections.

    If more tasks match a target than it needs, `first` is preferred, and the others are drawn at random.
    """
    targets = _choose(fault.targets, tasks, draw, 0, first)
    if fault.action not in ON_NETWORK:
        return targets, ()
    rest = [task for task in tasks if task not in targets]
    return targets, _choose(fault.others, rest, draw, len(targets)) if fault.others else tuple(rest)


def _choose(
    targets: Sequence[Target], tasks: Sequence[Task], draw: DrawNumber, drawn: int, first: Task | None = None
) -> tuple[Task, ...]:
    chosen: list[Task] = []
    for target in targets:
        candidates = [task for task in _matching(target, tasks) if task not in chosen]
        excluded = 0 if target.count is None else max(0, len(candidates) - target.count)
        while len(candidates) > excluded:
            if first in candidates:
                nth = candidates.index(first)
            else:
                nth = int(draw(drawn) * len(candidates)) if excluded else 0
                drawn += excluded > 0
            chosen.append(candidates.pop(nth))
    return tuple(sorted(chosen))


def _matching(target: Target, tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if target.type in (None, task.type) and target.index in (None, task.index)]

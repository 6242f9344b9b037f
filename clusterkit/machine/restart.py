"""Which tasks restart together, how often and after what delay, and which are given up instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from clusterkit.machine.blame import looks_collateral
from clusterkit.machine.scope import restart_scope
from clusterkit.words.job import JobSpec, RestartPolicy, RestartRules, RestartScope
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import Blame, Failure

SEEN_CUT = 1.0  # seconds after half of its timeout until a host counts as cut off


def is_needed(job: JobSpec, task: Task) -> bool:
    """Whether the others need the task even if it exits with code 0: a ps, or a member of a gang."""
    if task.type is TaskType.PS:
        return True
    return task in job.cluster and len(restart_scope(job, task)) > 1


def can_be_collateral(job: JobSpec, task: Task) -> bool:
    """Whether the task may have failed because another task did, whose failure is worth waiting for."""
    if task.type is TaskType.EVALUATOR or job.shape is Shape.SINGLE or job.restart.scope is RestartScope.TASK:
        return False  # nothing restarts with it, so there is nothing to wait for
    return job.shape is Shape.MULTI_WORKER or task.type is TaskType.CHIEF


def budget_key(scope: frozenset[Task], task: Task) -> str:
    """The key of a restart budget: a gang shares one, and a task that restarts alone has its own."""
    with_chief = task.type is TaskType.PS and all(other.type is TaskType.CHIEF for other in scope - {task})
    return str(task) if scope <= {task} or with_chief else "+".join(map(str, sorted(scope)))


def backoff_delay(rules: RestartRules, nth: int, jitter: float) -> float:
    """Seconds before the nth restart in a row: doubling from the 1st, bounded, spread by 10 % either way.

    The 0th is the first one of tasks that had made progress, which need no pause. `jitter` is in [0, 1).
    """
    if nth == 0:
        return 0.0
    plain: float = min(rules.backoff_max, rules.backoff * 2.0 ** min(nth - 1, 30))
    return plain * (0.9 + 0.2 * jitter)


def window(job: JobSpec, failure: Failure) -> float:
    """Seconds to wait for other failures that may be the cause or the result of this one."""
    limits = job.limits
    if failure.exit.unreached:
        return _until_seen(job)
    if failure.exit.error is not None or not can_be_collateral(job, failure.task):
        return 0.0
    if failure.exit.preempted:
        # Peers that were asked to stop may still be writing the checkpoint that the first one has written.
        return limits.grace if len(restart_scope(job, failure.task)) > 1 else 0.0
    if job.hosts.count and looks_collateral(failure):
        return _until_seen(job)
    return limits.collateral


def _until_seen(job: JobSpec) -> float:
    """Seconds until it is known whether a host that may be the cause is cut off.

    No time is lost: where one of its tasks was on such a host, it could not start again before.
    """
    return max(job.limits.collateral, job.hosts.timeout / 2 + SEEN_CUT)


def workers_of(job: JobSpec) -> tuple[Task, ...]:
    """The workers that are not given up."""
    return tuple(task for task in job.tasks if task.type is TaskType.WORKER)


def given_up(job: JobSpec, blamed: Blame, repeated: bool, moved: Collection[Task]) -> tuple[Task, ...]:
    """The workers to give up when a restart can't help; empty if the job has to fail.

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
    """The tasks that failed on their own, or that have no host."""
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
    """The remaining tasks that restart with this one.

    `known` are the workers that were given up before the coordinator started. When a worker comes back, that waits for
    all others which it knows, so it has to restart if one of them never does.
    """
    scope = restart_scope(job, task, moves=moves)
    outdated = job.shape is Shape.PARAMETER_SERVER and set(known) != set(job.given_up)
    return scope | {job.leader} if outdated and task.type is TaskType.WORKER else scope


def true_name(task: Task, gone: Collection[Task]) -> Task:
    """The task's name before the `gone` tasks were left out of TensorFlow's numbering, in which it is `task`."""
    index = task.index
    for one in sorted(gone):
        index += one.type is task.type and one.index <= index
    return Task(task.type, index)

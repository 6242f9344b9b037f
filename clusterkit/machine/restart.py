"""Restart rules: which tasks restart together, after what delay, and which workers are given up instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from clusterkit.machine.blame import looks_collateral
from clusterkit.words.job import JobSpec, RestartPolicy, RestartRules, RestartScope
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import Blame, Failure

DISCONNECTION_MARGIN = 1.0  # seconds; a cut-off host is detected at most this long after half of its timeout


def restart_scope(job: JobSpec, task: Task, moves: bool = False) -> frozenset[Task]:
    """Return the tasks that restart when `task` fails: the table in docs/strategies.md, "When a task fails".

    With `moves`, the task moves to another host, and all tasks that know the task's endpoint restart.
    """
    if moves and task in job.cluster:
        return job.cluster
    if job.restart.scope is RestartScope.TASK or task.type is TaskType.EVALUATOR:
        return frozenset({task})
    if job.restart.scope is RestartScope.JOB:
        return job.cluster
    if job.shape is Shape.MULTI_WORKER:
        return job.cluster  # peers refuse a task that restarts alone: TensorFlow's "incarnation" error
    if task.type is TaskType.PS:
        # The coordinator has to restore the variables that a ps held. A damaged job may have no training task.
        return frozenset({task, *job.training[:1]})
    return frozenset({task})


def is_needed(job: JobSpec, task: Task) -> bool:
    """Return whether other tasks need the task even after its success: the task is a ps, or belongs to a gang."""
    if task.type is TaskType.PS:
        return True
    return task in job.cluster and len(restart_scope(job, task)) > 1


def can_be_collateral(job: JobSpec, task: Task) -> bool:
    """Return whether the task may have failed because of another task, whose failure may be reported later."""
    if task.type is TaskType.EVALUATOR or job.shape is Shape.SINGLE or job.restart.scope is RestartScope.TASK:
        return False  # no other task restarts with this one, so waiting is useless
    return job.shape is Shape.MULTI_WORKER or task.type is TaskType.CHIEF


def budget_key(scope: frozenset[Task], task: Task) -> str:
    """Return the key of a restart budget: tasks of a gang share one budget; a task that restarts alone has its own."""
    with_chief = task.type is TaskType.PS and all(other.type is TaskType.CHIEF for other in scope - {task})
    return str(task) if scope <= {task} or with_chief else "+".join(map(str, sorted(scope)))


def backoff_delay(rules: RestartRules, nth: int, jitter: float) -> float:
    """Return the delay in seconds before the nth restart in a row.

    The delay doubles with each restart, and varies randomly by up to 10 % in either direction, but never exceeds the
    limit. The 0th is the first restart of tasks that had made progress, and has no delay. `jitter` is in [0, 1).
    """
    if nth == 0:
        return 0.0
    plain: float = min(rules.backoff_max, rules.backoff * 2.0 ** min(nth - 1, 30))
    return min(rules.backoff_max, plain * (0.9 + 0.2 * jitter))


def window(job: JobSpec, failure: Failure) -> float:
    """Return the seconds to wait for other failures that may be the cause or the result of this failure."""
    limits = job.limits
    if failure.exit.unreached:
        return _until_disconnection_seen(job)
    if failure.exit.error is not None or not can_be_collateral(job, failure.task):
        return 0.0
    if failure.exit.preempted:
        # The first task has written its checkpoint; peers that were asked to stop may still be writing checkpoints.
        return limits.grace if len(restart_scope(job, failure.task)) > 1 else 0.0
    if job.hosts.count and looks_collateral(failure):
        return _until_disconnection_seen(job)
    return limits.collateral


def _until_disconnection_seen(job: JobSpec) -> float:
    """Return the seconds to wait until a cut-off host, which may have caused the failure, has certainly been detected.

    If a host is cut off, waiting costs nothing, since its tasks could not restart earlier anyway.
    """
    return max(job.limits.collateral, job.hosts.timeout / 2 + DISCONNECTION_MARGIN)


def workers_of(job: JobSpec) -> tuple[Task, ...]:
    """Return the workers that are not given up."""
    return tuple(task for task in job.tasks if task.type is TaskType.WORKER)


def workers_to_give_up(job: JobSpec, blamed: Blame, repeated: bool, homeless: Collection[Task]) -> tuple[Task, ...]:
    """Return the workers to give up when a restart can't help; empty if the job has to fail.

    `homeless` are the tasks that were lost with their host in the last recovery and need another host. A chief
    or a parameter server is never given up. Workers are kept, too, if the program can't be started, if it fails in the
    same way each time or in several tasks, or if it is uncertain which task caused the failure.
    """
    least = job.restart.min_workers
    if least is None or job.restart.policy is RestartPolicy.NEVER or repeated:
        return ()
    failed = tuple(sorted(task for task in _failed_alone(job, blamed, homeless) if task.type is TaskType.WORKER))
    return failed if len(workers_of(job)) - len(failed) >= least else ()


def _failed_alone(job: JobSpec, blamed: Blame, homeless: Collection[Task]) -> Iterable[Task]:
    """Return the tasks that failed on their own, or have no host."""
    cause = blamed.cause
    if cause.exit.host is not None:
        return {failure.task for failure in (cause, *blamed.same, *blamed.collateral) if failure.exit.host is not None}
    if cause.exit.crowded:
        return homeless
    is_certain = not (looks_collateral(cause) and can_be_collateral(job, cause.task))
    can_start = cause.exit.error is None or cause.exit.unfit
    return {cause.task} if is_certain and can_start and not blamed.same else ()


def needs_coordinator(job: JobSpec, started: dict[Task, float], stepped: bool) -> bool:
    """Return whether the coordinator of a parameter-server job has to restart when a worker is given up.

    `started` gives the start time of each remaining task's current attempt. TensorFlow connects the coordinator to all
    of its workers at once: at its start, and whenever a worker comes back. If one worker never comes back, the others
    are not used either. So the coordinator can continue only if it is already connected to all other workers. This is
    certain if training has `stepped`, and if no worker has restarted since the coordinator started.
    """
    servers = [task for task in workers_of(job) if task in started]
    return not stepped or any(started[task] > started[job.leader] for task in servers)


def scope_of(job: JobSpec, omitted: Collection[Task], task: Task, moves: bool = False) -> frozenset[Task]:
    """Return the remaining tasks that restart when `task` fails.

    The coordinator's cluster spec lacks the `omitted` workers. When a worker comes back, the coordinator waits for all
    workers of the cluster spec. If one of these workers was given up later, the coordinator has to restart, too.
    """
    scope = restart_scope(job, task, moves=moves)
    outdated = job.shape is Shape.PARAMETER_SERVER and set(omitted) != set(job.given_up)
    return scope | {job.leader} if outdated and task.type is TaskType.WORKER else scope


def true_name(task: Task, given_up: Collection[Task]) -> Task:
    """Return the task's name in the job, given its name in TensorFlow's numbering, which omits the `given_up` tasks."""
    index = task.index
    for one in sorted(given_up):
        index += one.type is task.type and one.index <= index
    return Task(task.type, index)

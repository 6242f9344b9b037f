"""Which tasks restart together, how often, and after how long."""

from __future__ import annotations

from clusterkit.words.job import JobSpec, RestartRules, RestartScope
from clusterkit.words.model import Shape, Task, TaskType


def restart_scope(job: JobSpec, task: Task, moves: bool = False) -> frozenset[Task]:
    """The tasks that start again when `task` failed: the table in docs/strategies.md, "When a task fails".

    If it `moves` to another host, all that know its endpoint start again.
    """
    if moves and task in job.cluster:
        return job.cluster
    if job.restart.scope is RestartScope.TASK or task.type is TaskType.EVALUATOR:
        return frozenset({task})
    if job.restart.scope is RestartScope.JOB:
        return job.cluster
    if job.shape is Shape.MULTI_WORKER:
        return job.cluster  # a lone restart is refused by its peers: TensorFlow's "incarnation" error
    if task.type is TaskType.PS:
        return frozenset({task, job.leader})  # its variables are gone, so the coordinator has to restore them
    return frozenset({task})


def can_be_collateral(job: JobSpec, task: Task) -> bool:
    """Whether the task could have failed because another one did, so that it is worth waiting for that one."""
    if task.type is TaskType.EVALUATOR or job.shape is Shape.SINGLE or job.restart.scope is RestartScope.TASK:
        return False  # nothing restarts with it, so there is nothing to wait for
    return job.shape is Shape.MULTI_WORKER or task.type is TaskType.CHIEF


def budget_key(scope: frozenset[Task], task: Task) -> str:
    """Failures with the same key share one restart budget: a gang has one, a task that restarts alone its own."""
    with_chief = task.type is TaskType.PS and all(other.type is TaskType.CHIEF for other in scope - {task})
    return str(task) if scope <= {task} or with_chief else "+".join(map(str, sorted(scope)))


def backoff_delay(rules: RestartRules, nth: int, jitter: float) -> float:
    """Seconds before the nth restart in a row (from 1): doubling, bounded, spread by 10 % either way.

    `jitter` is in [0, 1).
    """
    plain: float = min(rules.backoff_max, rules.backoff * 2.0 ** min(nth - 1, 30))
    return plain * (0.9 + 0.2 * jitter)

"""Which tasks start again together."""

from __future__ import annotations

from clusterkit.words.job import JobSpec, RestartScope
from clusterkit.words.model import Shape, Task, TaskType


def restart_scope(job: JobSpec, task: Task, moves: bool = False) -> frozenset[Task]:
    """The tasks that start again when `task` failed: the table in docs/strategies.md, "When a task fails".

    If it `moves` to another host, all tasks that know its endpoint start again.
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
        return frozenset({task, job.leader})  # the coordinator has to restore the variables that a ps held
    return frozenset({task})

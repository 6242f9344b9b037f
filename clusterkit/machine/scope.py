"""The rule which tasks restart together."""

from __future__ import annotations

from clusterkit.words.job import JobSpec, RestartScope
from clusterkit.words.model import Shape, Task, TaskType


def restart_scope(job: JobSpec, task: Task, moves: bool = False) -> frozenset[Task]:
    """Return the tasks that restart when `task` fails: the table in docs/strategies.md, "When a task fails".

    With `moves`, the task moves to another host, and all tasks that know its endpoint restart.
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
        return frozenset({task, job.leader})  # the coordinator has to restore the variables that a ps held
    return frozenset({task})

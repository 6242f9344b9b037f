"""TF_CONFIG, as TensorFlow defines it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType

Endpoints = Mapping[Task, str]  # task -> "host:port"


def cluster_spec(job: JobSpec, endpoints: Endpoints) -> dict[str, list[str]]:
    """Task type to endpoints in the order of the indices; without the evaluator, for which the others would wait."""
    spec: dict[str, list[str]] = {}
    for task in job.tasks:
        if task.type is not TaskType.EVALUATOR:
            spec.setdefault(task.type, []).append(endpoints[task])
    return spec


def cluster_json(job: JobSpec, endpoints: Endpoints) -> str:
    """The cluster spec as the text that is in every task's TF_CONFIG."""
    return json.dumps(cluster_spec(job, endpoints))


def tf_config(job: JobSpec, task: Task, cluster: str) -> str | None:
    """The task's TF_CONFIG as JSON; None for a job of one training task, which needs no cluster.

    TensorFlow counts the tasks of a type from 0 without gaps, so those after a worker that was given up move up.
    A sidecar of such a job gets a TF_CONFIG without peers. `cluster` is what `cluster_json` made of the
    job: it is as long as the tasks are many, and they all have the same.
    """
    if job.shape is Shape.SINGLE and task.type is not TaskType.EVALUATOR:
        return None
    gone = sum(one.type is task.type and one.index < task.index for one in job.given_up)
    return f'{{"cluster": {cluster}, "task": {json.dumps({"type": task.type, "index": task.index - gone})}}}'

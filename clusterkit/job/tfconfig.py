"""TF_CONFIG, as TensorFlow defines it, and the variables for JAX, which does not read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from clusterkit.words.job import Convention, JobSpec, StartMode
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.resources import Network

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


BIND = "JAX_COORDINATOR_BIND_ADDRESS"
# The addresses, the number of processes and the process's own number; JAX itself reads the first one of its three.
VARIABLES: Mapping[Convention, tuple[str, ...]] = {
    Convention.TENSORFLOW: (),
    Convention.KERAS: (
        "KERAS_DISTRIBUTION_JOB_ADDRESSES",
        "KERAS_DISTRIBUTION_NUM_PROCESSES",
        "KERAS_DISTRIBUTION_PROCESS_ID",
    ),
    Convention.JAX: ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
}


def peers_of(job: JobSpec, endpoints: Endpoints) -> tuple[str, ...]:
    """The endpoints of the tasks that train together, the leader's first; empty unless the convention needs them."""
    needed = job.convention is not Convention.TENSORFLOW and job.shape is Shape.MULTI_WORKER
    return tuple(endpoints[task] for task in job.training) if needed else ()


def usual_convention_env(job: JobSpec) -> dict[str, str]:
    """The convention's variables that a job may override."""
    return {"KERAS_BACKEND": "jax"} if job.convention is Convention.KERAS else {}


def convention_env(job: JobSpec, task: Task, peers: tuple[str, ...]) -> dict[str, str]:
    """The variables by which a task of a gang finds the others; `peers` are those of `peers_of`."""
    if not peers:
        return {}
    addresses = ",".join(peers) if job.convention is Convention.KERAS else peers[0]
    values = (addresses, str(len(peers)), str(job.training.index(task)))
    # JAX's coordination service listens on all addresses, unless it is told where.
    bind = {BIND: peers[0]} if peers[0].startswith("127.") else {}
    return {**dict(zip(VARIABLES[job.convention], values, strict=True)), **bind}


def convention_problems(job: JobSpec) -> Iterator[str]:
    """Settings that contradict --convention."""
    if job.convention is Convention.TENSORFLOW:
        return
    flag = f"--convention {job.convention}"
    for kind in (TaskType.PS, TaskType.CHIEF, TaskType.EVALUATOR):
        if job.counts[kind] > 0:
            yield f"{flag} knows workers only, and the job has a task of the type {kind}. Leave out --{kind}."
    if job.keras is not None:
        yield f"{flag}: --keras is for tf.keras. Leave it out."
    if job.start is StartMode.WARM or job.preload:
        yield f"{flag}: tasks start cold, since fork servers import TensorFlow. Leave out --start warm and --preload."
    if job.network is Network.VIRTUAL:
        yield f"{flag}: on the virtual network, JAX's processes do not find each other. Leave out --network virtual."
    for where, setup in job.every_setup.items():
        for name in VARIABLES[job.convention]:
            if name in setup.env:
                yield f"{where}env: {name} is what {flag} sets. Give one of them."

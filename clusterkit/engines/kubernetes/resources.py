"""What a pod asks its cluster for."""

from __future__ import annotations

from math import ceil

from clusterkit.engines.kubernetes.manifest import Document, Manifest
from clusterkit.job.devices import computing
from clusterkit.words.model import Task

GPU = "nvidia.com/gpu"
SUPERVISOR: Document = {"requests": {"cpu": "1", "memory": "512Mi"}}


def of_agent(manifest: Manifest) -> Document:
    """For all tasks that a host may get when they are spread evenly."""
    job, hosts = manifest.job, manifest.hosts
    return _resources(manifest, ceil(len(job.tasks) / hosts), ceil(len(computing(job)) / hosts))


def of_task(manifest: Manifest, task: Task) -> Document:
    """For a pod of one task."""
    return _resources(manifest, 1, int(task in computing(manifest.job)))


def _resources(manifest: Manifest, tasks: int, computing_tasks: int) -> Document:
    devices, memory = manifest.job.devices, manifest.flags.memory
    amount = {} if memory is None else {"memory": memory}
    gpus = (devices.gpus or 0) * computing_tasks
    limits = {**amount, **({GPU: str(gpus)} if gpus else {})}  # a GPU's limit is its request, too
    requests = {"cpu": str((devices.cpus or 1) * tasks), **amount}
    return {"requests": requests, **({"limits": limits} if limits else {})}

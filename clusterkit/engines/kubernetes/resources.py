"""What a pod asks its cluster for."""

from __future__ import annotations

from math import ceil

from clusterkit.engines.kubernetes.manifest import Document, Manifest
from clusterkit.job.devices import computing

GPU = "nvidia.com/gpu"
SUPERVISOR: Document = {"requests": {"cpu": "1", "memory": "512Mi"}}


def of_agent(manifest: Manifest) -> Document:
    """For all tasks that a host may get when they are spread evenly."""
    job, hosts, memory = manifest.job, manifest.hosts, manifest.flags.memory
    devices, tasks = job.devices, ceil(len(job.tasks) / hosts)
    amount = {} if memory is None else {"memory": memory}
    gpus = (devices.gpus or 0) * ceil(len(computing(job)) / hosts)
    limits = {**amount, **({GPU: str(gpus)} if gpus else {})}  # a GPU's limit is its request, too
    requests = {"cpu": str((devices.cpus or 1) * tasks), **amount}
    return {"requests": requests, **({"limits": limits} if limits else {})}

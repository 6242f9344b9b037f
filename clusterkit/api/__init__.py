"""The Python API: starts and controls a cluster from a Python process."""

from clusterkit.api.cluster import Cluster
from clusterkit.api.result import ClusterFailed, Result, RunEnded, StillRunning, WaitTimeout
from clusterkit.api.tasks import Attempt, TaskHandle
from clusterkit.job.options import Options

__all__ = [
    "Attempt",
    "Cluster",
    "ClusterFailed",
    "Options",
    "Result",
    "RunEnded",
    "StillRunning",
    "TaskHandle",
    "WaitTimeout",
]

"""The Python API: a cluster that runs beside this process."""

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

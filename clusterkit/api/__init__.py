"""The Python API: a cluster that runs beside this process."""

from clusterkit.api.cluster import Cluster
from clusterkit.api.errors import ClusterFailed, RunEnded, StillRunning, WaitTimeout
from clusterkit.api.result import Result
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

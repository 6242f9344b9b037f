"""What runs beside the tasks, in processes of their own: if one fails, the run continues."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from clusterkit.client.directory import RunDirectory
from clusterkit.dashboard.metrics_process import MetricsProcess
from clusterkit.dashboard.process import DashboardProcess
from clusterkit.tensorboard.process import TensorBoard
from clusterkit.warm.choice import marks
from clusterkit.words.job import JobSpec


def start_beside(
    job: JobSpec, run: RunDirectory, post: Callable[[Any], None], say: Callable[[str], None] | None, stack: ExitStack
) -> None:
    """Start what the job asks for. The stack stops it, before the rest of the run is stopped.

    `say` shows a sentence that is not for the journal; None: nothing is shown.
    """
    if job.tensorboard:
        env = {**marks(run), "CLUSTERKIT_TASK": "tensorboard"}
        stack.callback(TensorBoard(run, post, env=env).stop)
    if job.dashboard or job.dashboard_control:
        env = {**marks(run), "CLUSTERKIT_TASK": "dashboard"}
        stack.callback(DashboardProcess(run, post, say, job.dashboard_control, env).stop)
    if job.metrics_port is not None:
        env = {**marks(run), "CLUSTERKIT_TASK": "metrics"}
        stack.callback(MetricsProcess(run, job.metrics_port, post, env).stop)

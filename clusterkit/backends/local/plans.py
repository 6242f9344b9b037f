"""Plans: how each task here is started, in the cluster that an attempt is to be a member of."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import replace

from clusterkit.client.paths import RunPaths
from clusterkit.job.plan import TaskPlan, plan_tasks
from clusterkit.job.tfconfig import Endpoints
from clusterkit.words.actions import Spawn
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task


class Plans:
    """Makes the plans when the first attempt needs them, and anew when workers were given up."""

    def __init__(self, job: JobSpec, endpoints: Endpoints, paths: RunPaths, here: Collection[Task]) -> None:
        self._job, self._endpoints, self._paths, self._here = job, endpoints, paths, here
        self._plans: Mapping[Task, TaskPlan] = {}
        self._without: tuple[Task, ...] | None = None  # the workers that the plans leave out; None: there are none yet

    def of(self, order: Spawn) -> TaskPlan:
        """The plan of the task that is to be started."""
        if self._without != order.given_up:
            job = replace(self._job, given_up=order.given_up)
            self._plans = plan_tasks(job, self._endpoints, self._paths, sys.executable, self._here)
            self._without = order.given_up
        return self._plans[order.task]

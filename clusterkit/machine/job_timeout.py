"""Ends the run at its timeout. If no step was made, the tasks are inspected before, so that the report says why."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.ending import Ending
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.outcome import RunState
from clusterkit.words.reports import Look

WITHIN = 5.0  # seconds; the run ends this long after its timeout although the inspection is not finished


@dataclass(slots=True)
class JobTimeout:
    """The end of a run by its timeout."""

    state: ClusterState
    ending: Ending
    awaited: bool = False  # True from the timeout until the end of the inspection

    def on_timer(self) -> None:
        """Request the inspection, or end the run."""
        if self.awaited or self.ending.begun or self.state.progress_at is not None or not any(self.state.alive()):
            self.end()
            return
        self.awaited = True
        self.state.actions.append(Inspect(Look.STARTUP, "no step before the job's timeout"))
        self.state.timers.set(Timer.JOB, self.state.now + WITHIN)

    def end(self) -> None:
        """End the run."""
        self.awaited = False
        limit = self.state.job.limits.job
        self.ending.stop(RunState.TIMED_OUT, 124, f"the job took longer than its timeout of {limit:g} s")

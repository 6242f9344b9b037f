"""Ends the run at its timeout. If no step was completed recently, an inspection first shows what tasks are doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.ending import Ending
from clusterkit.machine.monitors.stalls import stuck_task, verdict
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunState
from clusterkit.words.reports import Look, Vitals

INSPECTION_TIMEOUT = 5.0  # seconds; the time limit for the inspection; the run then ends without its result
RECENT_STEP = 15.0  # seconds; the tasks are not inspected if a step was completed this recently


@dataclass(slots=True)
class JobTimeout:
    """Ends the run when its timeout has passed."""

    state: ClusterState
    ending: Ending
    awaited: bool = False  # True from the timeout until the inspection is finished

    def on_timer(self) -> None:
        """Request the inspection, or end the run."""
        made = self.state.progress_at
        is_recent = made is not None and self.state.now < made + RECENT_STEP
        if self.awaited or self.ending.begun or is_recent or not any(self.state.alive()):
            self._end()
            return
        self.awaited = True
        steps = "no step" if made is None else f"no step for {self.state.now - made:.0f} s"
        self.state.actions.append(Inspect(Look.TIMEOUT, f"{steps} before the job's timeout"))
        self.state.timers.set(Timer.JOB, self.state.now + INSPECTION_TIMEOUT)

    def inspected(self, vitals: Mapping[Task, Vitals]) -> None:
        """End the run, and report what its tasks are doing."""
        if self.awaited:
            self._end(self._activities(vitals))

    def _end(self, doing: str = "") -> None:
        self.awaited = False
        limit = self.state.job.limits.job
        self.ending.stop(RunState.TIMED_OUT, 124, f"the job took longer than its timeout of {limit:g} s{doing}")

    def _activities(self, vitals: Mapping[Task, Vitals]) -> str:
        """Return a clause about the stuck task and the tasks that wait for it; "" if nothing is known."""
        steps = {record.task: record.last_step for record in self.state.alive(self.state.job.steppers)}
        stuck = stuck_task(self.state.job, steps, vitals)
        known = stuck is not None and any(seen.doing for seen in vitals.values())
        return f": {verdict(self.state.job, stuck, vitals)}" if stuck is not None and known else ""

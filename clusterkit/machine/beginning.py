"""The beginning: of a run, or of another allocation in which it continues."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.ending import Ending, Verdict
from clusterkit.machine.faults import Faults
from clusterkit.machine.recovery import Recoveries
from clusterkit.machine.timers import Timer
from clusterkit.words.events import Continued, FaultHealed
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunState

ALLOCATIONS = 100  # of one run, at most


@dataclass(slots=True)
class Beginning:
    """Starts every task, with what the run has behind it."""

    state: ClusterState
    ending: Ending
    recoveries: Recoveries
    faults: Faults

    def began(self) -> None:
        """The run begins."""
        self.state.began = self.state.now
        self._start(self.state.job.tasks, "resume" if self.state.job.resume else "")

    def continued(self, event: Continued) -> None:
        """The run continues: what it was doing is lost, and every task starts again from the newest checkpoint."""
        before = self.state.before
        self.recoveries.restarts = before.restarts
        self.faults.injections.count, self.faults.step = before.injected, before.step
        for ended in before.lost():
            self.state.note(ended)
        for number, fault in sorted(before.open.items()):
            why = "the allocation that it was injected in has ended"
            self.state.record(FaultHealed(number, fault.fault, fault.action, fault.tasks, why))
        if before.done is not None:
            self.ending.verdict = Verdict(RunState.SUCCEEDED, 0, f"{before.done} exited with code 0")
        elif before.stopped is not None:
            self.ending.fail(f"{before.stopped}; its supervisor was lost before it had ended every task")
        elif event.allocation > ALLOCATIONS:
            self.ending.fail(f"it has had {ALLOCATIONS} allocations, as many as a run may have")
        else:
            self._start(self.state.job.tasks, "continued")

    def _start(self, tasks: Collection[Task], reason: str) -> None:
        if limit := self.state.job.limits.job:
            self.state.timers.set(Timer.JOB, max(self.state.now, self.state.now + limit - self.state.before.spent))
        self.faults.begin()
        self.state.spawn(tasks, reason)

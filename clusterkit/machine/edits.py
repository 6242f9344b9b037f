"""Restarts the tasks of a run with --watch when its program changes."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.recovery import Recoveries
from clusterkit.words.events import EditTrains, ProgramChanged, Progressed, WaitsForChange
from clusterkit.words.outcome import Blame

LONGEST_ERROR = 300  # the maximum number of characters of an exception in a message


@dataclass(slots=True)
class Edits:
    """Restarts every task when the program changes. If the job fails, keeps the run waiting for the next change."""

    state: ClusterState
    ending: Ending
    recoveries: Recoveries
    saved_at: float | None = None  # when the newest change was saved; None once the new program has completed a step
    seen_at: float = 0.0

    def __post_init__(self) -> None:
        if self.state.job.watches:
            self.ending.on_failure = self.wait

    def program_changed(self, event: ProgramChanged) -> None:
        """Restart all tasks with the changed files, unless the new program can't run."""
        if self.ending.begun:
            return
        self.state.program_problem = event.problem
        if event.problem:
            if any(one.edit is not None for one in self.recoveries.open):  # an earlier change has ended the tasks
                self.wait(event.problem)
            return
        if event.same and not self.state.awaits_change:
            return
        self.state.awaits_change = False
        self.saved_at, self.seen_at = self.state.now - event.ago, self.state.now
        self.recoveries.restart_with_edit(event.files)

    def wait(self, reason: str, blame: Blame | None = None) -> None:
        """End all tasks, and start none until the program changes or a user requests a restart."""
        if self.state.awaits_change:
            return
        self.state.awaits_change, self.saved_at = True, None
        self.recoveries.open.clear()
        self.state.end_for_edit(self.state.job.tasks)
        error = blame.cause.exception if blame is not None else None
        if error:
            reason += f" ({error[:LONGEST_ERROR]})"
        self.state.record(WaitsForChange(reason, self.state.job.program.target))

    def progressed(self, record: TaskRecord, event: Progressed) -> None:
        if self.saved_at is None or record.started <= self.seen_at or event.step <= (record.resumed_step or 0):
            return
        self.state.record(EditTrains(event.step, self.state.now - self.saved_at))
        self.saved_at = None

"""Failed peers: tasks of the leader's gang that fail just before the leader exits with code 0, or after that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clusterkit.machine.blame import is_own
from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.likeness import was_killed
from clusterkit.machine.restart import restart_scope
from clusterkit.words.events import Failed
from clusterkit.words.model import Shape, Task
from clusterkit.words.outcome import Failure


@dataclass(slots=True)
class FailedPeers:
    """Decides whether the job has succeeded although one of its tasks failed.

    The leader's exit says nothing about its peers in a gang: each has its share of the work. What the end of the leader
    explains is no failure, and one that somebody killed is a warning.
    """

    state: ClusterState
    ending: Ending

    @property
    def tasks(self) -> frozenset[Task]:
        """Those that count: they train, and restart with the leader. A server's work is the coordinator's."""
        job = self.state.job
        if job.shape is not Shape.MULTI_WORKER:
            return frozenset()
        return restart_scope(job, job.leader) - {job.leader}

    def judge(self, failures: Iterable[Failure]) -> None:
        """The leader has succeeded. These had failed shortly before, and were not followed by a restart."""
        tasks = self.tasks
        for failure in failures:
            if failure.task in tasks:
                self._judge(failure)

    def failed(self, record: TaskRecord) -> None:
        """A task failed after the leader had succeeded; it had not been asked to end."""
        failure = self.state.failure(record)
        if is_own(failure):
            self.state.record(Failed(failure))
        self._judge(failure)

    def _judge(self, failure: Failure) -> None:
        if is_own(failure):
            self.ending.spoil(failure)
        elif was_killed(failure.exit) or failure.exit.host is not None:
            self.state.warn(
                f"{failure.task} {failure.exit} when {self.state.job.leader} had finished, so the job counts as done. "
                f"See whether {failure.task} had something left to save.",
                failure.task,
            )

"""Agents that somebody else starts: by hand, or by Kubernetes from the manifests."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM

from clusterkit.backends.hosts.allocation import Allocation
from clusterkit.engines.base import Engine
from clusterkit.store.directory import RunDirectory
from clusterkit.words.events import AllocationEnding
from clusterkit.words.job import JobSpec

MOVED_WITHIN = 15.0  # seconds at least for the tasks to end; Kubernetes gives a pod 30 unless it is told otherwise


class ExternalAgents(Allocation):
    """They are waited for, as long as a start may take."""

    address = "::"

    def __init__(self, continues: bool = False, grace: float = 0.0) -> None:
        """`grace` is what the job asks for, and what manifests give the pods time for."""
        self._continues, self._grace = continues, max(MOVED_WITHIN, grace)

    def start(self, endpoint: str, key: Path) -> None:
        """Nothing is started here."""

    def failed(self) -> str | None:
        return None

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | None:
        """A supervisor that is told to end, and that somebody is to start again, is moved. An agent leaves."""
        if not self._continues or elsewhere or signal != SIGTERM:
            return None
        return AllocationEnding("the supervisor is told to end (SIGTERM)", self._grace)

    def stop(self) -> None:
        """They end when they are told that the run is over, or do not hear of it any more."""


class External(Engine):
    """Whoever runs `clusterkit agent`."""

    def allocation(self, job: JobSpec, directory: RunDirectory, continues: bool) -> ExternalAgents:
        return ExternalAgents(continues, job.limits.grace)


ENGINE = External()

"""The `agents` engine: users start the agents by hand, or Kubernetes starts them; clusterkit starts no agents."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM

from clusterkit.backends.hosts.allocation import Allocation
from clusterkit.engines.base import Engine
from clusterkit.store.directory import RunDirectory
from clusterkit.words.events import AllocationEnding
from clusterkit.words.job import JobSpec

MOVED_WITHIN = 15.0  # seconds; the minimum time that tasks get to end; by default, Kubernetes gives a pod 30 s


class ExternalAgents(Allocation):
    """Agents that are started outside clusterkit. The supervisor waits for them until the startup deadline."""

    address = "::"

    def __init__(self, continues: bool = False, grace: float = 0.0) -> None:
        """`continues`: True if the supervisor will be started again. `grace`: the job's grace period in seconds."""
        self._continues, self._grace = continues, max(MOVED_WITHIN, grace)

    def start(self, endpoint: str, key: Path) -> None:
        """Do nothing: the agents are started elsewhere."""

    def failed(self) -> str | None:
        return None

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | None:
        """Return AllocationEnding for a SIGTERM to a supervisor that will be started again; otherwise None."""
        if not self._continues or elsewhere or signal != SIGTERM:
            return None
        return AllocationEnding("the supervisor is told to end (SIGTERM)", self._grace)

    def stop(self) -> None:
        """Do nothing: the agents end with the run or, without contact to the supervisor, when their lease expires."""


class ExternalEngine(Engine):
    """The engine for agents that users start with `clusterkit agent`."""

    def allocation(self, job: JobSpec, directory: RunDirectory, continues: bool) -> ExternalAgents:
        return ExternalAgents(continues, job.limits.grace)


ENGINE = ExternalEngine()

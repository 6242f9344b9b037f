"""A run that is about to begin: what was prepared, how it is shown, and its directory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.supervisor.prepare import Prepared
from clusterkit.views.console import Show
from clusterkit.views.narrate import Level
from clusterkit.warm.fork_client import Launch
from clusterkit.words.errors import RunDirectoryError


@dataclass(frozen=True, slots=True)
class Display:
    """How a run is shown."""

    show: Show = field(default_factory=Show)
    level: Level = Level.INFO


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is about to begin, in this process or in another one."""

    prepared: Prepared
    run_id: str
    display: Display
    launch: Launch | None = None  # of its fork server
    starters: frozenset[int] = frozenset()  # the processes that started it, which must not be killed as strays

    @property
    def directory(self) -> RunDirectory:
        """The run's directory, which may not exist yet."""
        return RunStore().run(self.run_id, self.prepared.job.checkpoint_dir)

    def warned(self, warning: str) -> Run:
        """Return the same run with one more warning."""
        return replace(self, prepared=replace(self.prepared, warnings=(*self.prepared.warnings, warning)))


def make_and_lock(directory: RunDirectory) -> int:
    """Create a run's directory, and mark the run as live while this process keeps the descriptor that it returns.

    Raises RunDirectoryError.
    """
    directory.make()
    try:
        return directory.lock()
    except RunDirectoryError:
        directory.discard()
        raise

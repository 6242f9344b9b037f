"""A run from `up` on: its guardian, its supervisor, and its fork server, which starts as early as possible.

The imports of the fork server take the longest. So this module imports little, and the supervisor imports the rest
while the fork server imports TensorFlow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from clusterkit.client.directory import RunDirectory
from clusterkit.client.store import RunStore, new_run_id
from clusterkit.supervisor.guardian import guard
from clusterkit.supervisor.handover import hand_over
from clusterkit.supervisor.lost import end_crashed, supervisor_lost
from clusterkit.supervisor.prepare import Prepared
from clusterkit.supervisor.signals import HEEDED
from clusterkit.supervisor.watchdog import Watchdog
from clusterkit.system.barrier import crashed
from clusterkit.system.process import ENDING
from clusterkit.system.procfs import lineage
from clusterkit.views.console import Show
from clusterkit.views.narrate import Level
from clusterkit.warm.choice import launch_for, warm_places
from clusterkit.warm.launching import Inherited, Launch, begin
from clusterkit.warm.session import Session
from clusterkit.words.errors import ClusterkitError, RunDirectoryError
from clusterkit.words.outcome import SUSPENDED
from clusterkit.words.printable import printable_lines

GUARDIAN = "clusterkit's guardian process"
OWNER = "the Python process that started the run"


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
    starters: frozenset[int] = frozenset()  # the processes that started it, which are no strays

    @property
    def directory(self) -> RunDirectory:
        """Its directory, which may not exist yet."""
        return RunStore().run(self.run_id, self.prepared.job.checkpoint_dir)

    def warned(self, warning: str) -> Run:
        """Return the same run with one more warning."""
        return replace(self, prepared=replace(self.prepared, warnings=(*self.prepared.warnings, warning)))

    def supervise(self, lifelines: Mapping[int, str], inherited: Inherited | None = None) -> int:
        """Be the supervisor, perhaps with a fork server that runs already; return the exit code."""
        directory = self.directory
        try:
            if not self.prepared.continues:
                make_and_lock(directory)
                inherited = inherited or _early(self.launch)
            from clusterkit.supervisor.launch import supervise  # while the fork server imports

            return supervise(self, directory, lifelines, inherited)
        except ClusterkitError as error:
            print(f"clusterkit: {printable_lines(str(error))}", file=sys.stderr)
            return error.exit_code
        except Exception as error:
            return end_crashed(directory, crashed("its supervisor", error))


def up(
    prepared: Prepared,
    display: Display,
    lifeline: int | None = None,
    session: Session | None = None,
    starters: Collection[int] = (),
) -> int:
    """Run a prepared job to its end under a guardian; return the exit code.

    `lifeline` is a pipe to the Python process that the run must not outlive; `session` is that process where it keeps
    warm servers. `starters` are processes that started the run and may not be ancestors of this one any more.
    """
    starters = frozenset({*starters, *lineage(os.getpid())})
    run = Run(prepared, prepared.run_id or new_run_id(), display, starters=starters)
    on_hosts = prepared.job.hosts.count > 0  # each agent has a fork server of its own
    heeded = HEEDED if prepared.continues else ENDING
    launch = None if on_hosts else launch_for(prepared.job, run.directory)
    run = run.warned(f"Tasks start cold: {launch}.") if isinstance(launch, str) else replace(run, launch=launch)
    for place in () if prepared.continues else warm_places(run.launch, session, lifeline):
        code = place if isinstance(place, str) else hand_over(place, run, run.directory, lifeline)
        if isinstance(code, int):
            return code
        run = run.warned(code)
    owner = {} if lifeline is None else {lifeline: OWNER}
    return guard(
        lambda guardian: run.supervise({guardian: GUARDIAN, **owner}),
        lambda how, left: _lost(run, how, left),
        heeded,
        Watchdog(run.directory),
    )


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


def _early(launch: Launch | None) -> Inherited | None:
    """Start the fork server. If that fails, the run does once more when it has a journal, and says why not."""
    try:
        return None if launch is None else begin(launch)
    except OSError:
        return None


def _lost(run: Run, how: str, left: int) -> int:
    supervisor_lost(run.run_id, how, left)
    return SUSPENDED if run.prepared.continues else 1

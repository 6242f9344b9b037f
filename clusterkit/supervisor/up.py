"""`up`: starts the guardian, the supervisor and, as early as possible, the fork server.

The fork server takes the longest to start, since it imports TensorFlow. So this module imports little, and the
supervisor imports the rest while the fork server starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterkit.store.store import new_run_id
from clusterkit.supervisor.crashes import end_crashed, supervisor_lost
from clusterkit.supervisor.guardian import guard
from clusterkit.supervisor.prepare import Display, PendingRun, Prepared, make_and_lock
from clusterkit.supervisor.signals import HANDLED, Watchdog
from clusterkit.system.barrier import crashed
from clusterkit.system.process import ENDING
from clusterkit.system.procfs import lineage
from clusterkit.text.printable import printable_lines
from clusterkit.views.narrate import Level
from clusterkit.warm.choice import can_share, launch_for
from clusterkit.warm.fork_client import Launch, StartedServer, begin
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.outcome import SUSPENDED

if TYPE_CHECKING:  # only runs of TensorFlow programs need this import
    from clusterkit.warm.warm_client import WarmSession

GUARDIAN = "clusterkit's guardian process"
OWNER = "the Python process that started the run"


def up(
    prepared: Prepared,
    display: Display,
    lifeline: int | None = None,
    session: WarmSession | None = None,
    starters: Collection[int] = (),
) -> int:
    """Run a prepared job to its end under a guardian; return the exit code.

    `lifeline` is a pipe to the Python process that the run must not outlive; `session` has that process's warm servers.
    `starters` are pids of processes that started the run but may no longer be ancestors of this process.
    """
    starters = frozenset({*starters, *lineage(os.getpid())})
    run = PendingRun(prepared, prepared.run_id or new_run_id(), display, starters=starters)
    on_hosts = prepared.job.hosts.count > 0  # each agent has its own fork server
    signals = HANDLED if prepared.continues else ENDING
    launch = None if on_hosts else launch_for(prepared.job, run.directory)
    run = run.with_warning(f"Tasks start cold: {launch}.") if isinstance(launch, str) else replace(run, launch=launch)
    if can_share(run.launch) and not prepared.continues:
        from clusterkit.supervisor.handover import start_from_server  # imported here, for TensorFlow programs only

        started = start_from_server(run, session, lifeline)
        if isinstance(started, int):
            return started
        run = started

    def on_lost(how: str, left: int) -> int:
        supervisor_lost(run.run_id, how, left)
        return SUSPENDED if prepared.continues else 1

    owner = {} if lifeline is None else {lifeline: OWNER}
    code = guard(
        lambda guardian: supervise(run, {guardian: GUARDIAN, **owner}),
        on_lost,
        signals,
        Watchdog(run.directory),
        run.directory,
    )
    shown = display.level <= Level.INFO and sys.stdout.isatty()
    if code == 0 and shown and can_share(run.launch):
        from clusterkit.warm.shared_servers import suggestion  # for TensorFlow programs only

        if line := suggestion(run.launch):
            print(f"  {line}")
    return code


def supervise(run: PendingRun, lifelines: Mapping[int, str], inherited: StartedServer | None = None) -> int:
    """Run the job in this process, the supervisor; return the exit code. `inherited` is a running fork server."""
    directory = run.directory
    try:
        if not run.prepared.continues:
            make_and_lock(directory)
            inherited = inherited or _start_fork_server(run.launch)
        from clusterkit.supervisor.launch import launch  # imported here, while the fork server starts

        return launch(run, directory, lifelines, inherited)
    except ClusterkitError as error:
        print(f"clusterkit: {printable_lines(str(error))}", file=sys.stderr)
        return error.exit_code
    except Exception as error:
        return end_crashed(directory, crashed("its supervisor", error))


def _start_fork_server(launch: Launch | None) -> StartedServer | None:
    """Start the fork server. If this fails, the run tries again later, when the journal can record the reason."""
    try:
        return None if launch is None else begin(launch)
    except OSError:
        return None

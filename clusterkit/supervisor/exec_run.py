"""The main program of the guardian and of the supervisor in a run that a warm server has started.

    python -c ... RUN_ID guardian SUPERVISOR REPORT HELD
    python -c ... RUN_ID supervisor FORK_SERVER CHANNEL LIFELINE JOB GUARDIAN COMMAND [OWNER]

SUPERVISOR and FORK_SERVER are pids, the other arguments after the role are descriptors. HELD is the guardian's end of
its lifeline to the supervisor. GUARDIAN, COMMAND and OWNER are lifelines to processes that the run must not outlive.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from contextlib import suppress

from clusterkit.supervisor.guardian import exit_after, forwarding, handle_sigttou, wait_for_supervisor
from clusterkit.system.process import ENDING


def main() -> None:
    run_id, role, *numbers = sys.argv[1:]
    other, *descriptors = map(int, numbers)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    exit_after(
        lambda: run_guardian(run_id, other, *descriptors) if role == "guardian" else run_supervisor(other, *descriptors)
    )


def run_guardian(run_id: str, supervisor: int, report: int, own_end: int) -> int:
    """Wait for the supervisor, and write its exit code to the pipe `report` for the command that started the run."""
    from clusterkit.store.store import RunStore
    from clusterkit.supervisor.crashes import supervisor_lost
    from clusterkit.supervisor.watchdog import Watchdog

    watchdog = Watchdog(RunStore().run(run_id))
    with forwarding(supervisor, watchdog=watchdog):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        code = wait_for_supervisor(supervisor, own_end, lambda how, left: supervisor_lost(run_id, how, left), watchdog)
    with suppress(BrokenPipeError):  # the command was killed
        os.write(report, str(code).encode())
    return code


def run_supervisor(server: int, channel: int, lifeline: int, job: int, *owners: int) -> int:
    """Run the job that is pickled in the file `job`, with a fork server that is already running."""
    from clusterkit.supervisor.prepare import PendingRun
    from clusterkit.supervisor.up import GUARDIAN, OWNER
    from clusterkit.supervisor.up import supervise as supervise_run
    from clusterkit.warm.fork_client import StartedServer

    handle_sigttou()
    with os.fdopen(job, "rb") as file:
        run: PendingRun = pickle.load(file)
    names = (GUARDIAN, "the command that started the run", OWNER)
    return supervise_run(run, dict(zip(owners, names, strict=False)), StartedServer(server, channel, lifeline))

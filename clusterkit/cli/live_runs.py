"""Repeats a command on the supervisor's host if a run's supervisor is on another host."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from clusterkit.cli.addressing import choose

if TYPE_CHECKING:
    from clusterkit.store.directory import RunDirectory
    from clusterkit.store.journal import RunEndWaiter


def live_run(run: str | None) -> RunDirectory:
    """Return the live run to act on. If its supervisor is on an engine's host, run this command there and exit.

    This opens no port: the engine starts the command and admits only the run's user. Raises ClusterkitError.
    """
    chosen = choose(run, finished=False)
    info = chosen.info()
    if info is None or not info.allocation or info.host == socket.gethostname():
        return chosen
    from clusterkit.engines.base import engine_named

    command = [sys.executable, "-m", "clusterkit", *sys.argv[1:]]
    done = engine_named(info.job.hosts.engine).run_inside(info.allocation, info.host, command)
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(done.stderr)
    sys.stderr.flush()
    sys.exit(done.returncode)


def end_waiter(run: RunDirectory) -> RunEndWaiter:
    """Return a waiter for the end of a run, across all allocations that its engine gives the run."""
    from clusterkit.engines.base import continues
    from clusterkit.store.journal import RunEndWaiter

    return RunEndWaiter(run, lambda: continues(run))

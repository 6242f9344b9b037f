"""Remains: what one run that is over has left behind; `leaks` looks at all runs of a home."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from clusterkit.client.rundir import is_live
from clusterkit.client.store import JOB, read_json
from clusterkit.system import procfs
from clusterkit.system.ports import ports_here

DYING = 2.0  # seconds that processes which were killed may take to be gone
LOOK = 0.05  # seconds between two looks


def remains_of(run: Path) -> tuple[str, ...]:
    """Sentences about what is there of a run that has ended; none where nothing is."""
    until = time.monotonic() + DYING
    while (found := tuple(_remains(run))) and time.monotonic() < until:
        time.sleep(LOOK)
    return found


def _remains(run: Path) -> Iterator[str]:
    if is_live(run):
        yield "The run's lock is still held: something of its supervisor lives on."
    ports, listened = _ports(run), procfs.listening_ports()
    for pid in procfs.all_pids():
        env = procfs.environ(pid)
        directory = env.get("CLUSTERKIT_RUN_DIR")
        if directory == os.fspath(run) and pid != os.getpid() and not procfs.is_zombie(pid):
            yield f"The process {pid} of {env.get('CLUSTERKIT_TASK', 'a task')} still runs."
        elif directory is None and ports.keys() & listened:  # another run may have been given the port meanwhile
            for port in ports.keys() & procfs.listening_ports_of(pid):
                yield f"The process {pid} still listens on port {port}, which was {ports[port]}'s."


def _ports(run: Path) -> dict[int, str]:
    """The ports of this machine that the run's tasks had."""
    return ports_here(read_json(run / JOB).get("endpoints", {}))

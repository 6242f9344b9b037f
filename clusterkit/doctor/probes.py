"""Tries the state directory and the ports as a run would use them, and cleans up."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
from contextlib import suppress
from pathlib import Path

from clusterkit.client.cleaning import find_strays
from clusterkit.client.store import state_dir
from clusterkit.doctor.machine_rules import PortFacts, StateFacts
from clusterkit.system.ports import HOST, claim
from clusterkit.system.procfs import ESTABLISHED, LISTENS, tcp_sockets
from clusterkit.words.errors import NoPorts

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL = (32768, 60999)  # Linux's default range
TIME_WAIT = "06"


def try_state() -> StateFacts:
    """Use the state directory, or the one in which it would be created, as a run would."""
    home = state_dir()
    existing = next((place for place in (home, *home.parents) if place.exists()), Path("/"))
    room = shutil.disk_usage(existing).free if existing.is_dir() else 0
    return StateFacts(str(home), _unusable(existing), room, {run: len(pids) for run, pids in find_strays().items()})


def try_ports() -> PortFacts:
    """Count the free ephemeral ports, and listen on a held one, as TensorFlow's server does."""
    try:
        first, last = map(int, RANGE.read_text().split())
    except (OSError, ValueError):
        first, last = USUAL
    fields = [found for state in (LISTENS, ESTABLISHED, TIME_WAIT) for found in tcp_sockets("self", state)]
    used = {int(found[1].rpartition(":")[2], 16) for found in fields}
    count = last - first + 1
    return PortFacts(count, count - sum(first <= port <= last for port in used), _not_shared())


def _unusable(directory: Path) -> str | None:
    """Return why a run can't use a directory, as a clause; None if it can."""
    trial = directory / f".clusterkit-{secrets.token_hex(8)}"
    try:
        trial.mkdir(mode=0o700)
    except OSError as error:
        return f"{directory} is not writable ({error.strerror})"
    try:
        os.mkfifo(trial / "progress", 0o600)
        with (trial / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return f"its file system lacks named pipes, locks or space ({error.strerror})"
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return None


def _not_shared() -> str | None:
    """Return why a server can't listen on a held port, or clients can't reach it there; None if they can."""
    try:
        held = claim()
    except NoPorts:
        return "no port is free"
    with held, socket.socket() as server, socket.socket() as client:
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(held.getsockname())
            server.listen(1)
        except OSError as error:
            return f"a server can't listen on a held port with SO_REUSEPORT ({error.strerror})"
        try:
            client.settimeout(5)
            client.connect((HOST, held.getsockname()[1]))
        except OSError as error:
            return f"clients can't reach a server at {HOST} ({error.strerror or error})"
        with suppress(OSError):
            server.accept()[0].close()
    return None

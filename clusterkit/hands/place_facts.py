"""What a run finds where it is kept and where its tasks listen: each is tried, and nothing stays of it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from clusterkit.client.control_socket import LONGEST
from clusterkit.client.reap import find_strays
from clusterkit.client.rundir import all_runs, is_live, state_dir
from clusterkit.system.ports import HOST, claim
from clusterkit.system.procfs import ESTABLISHED, LISTENS, tcp_sockets
from clusterkit.warm.shared import warm_dir
from clusterkit.words.doctor import Place, Ports
from clusterkit.words.errors import NoPorts

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL = (32768, 60999)
TIME_WAIT = "06"


def look_at_place() -> Place:
    """The state directory, which is not made if it is not there, and the runs in it."""
    home = state_dir()
    existing = next((place for place in (home, *home.parents) if place.exists()), Path("/"))
    problem = _unusable(existing)
    return Place(
        path=str(home),
        problem=problem,
        room=shutil.disk_usage(existing).free if existing.is_dir() else 0,
        socket=len(os.fsencode(warm_dir() / f"{'0' * 16}.sock")),
        socket_most=LONGEST,
        temporary_problem=_no_temporary(),
        live=sum(map(is_live, all_runs())) if problem is None else 0,
        strays={run_id: len(pids) for run_id, pids in find_strays().items()},
    )


def look_at_ports() -> Ports:
    """Those that the system gives out, and whether one that is held can be listened on by a server that joins it."""
    try:
        first, last = map(int, RANGE.read_text().split())
    except (OSError, ValueError):
        first, last = USUAL
    fields = [found for state in (LISTENS, ESTABLISHED, TIME_WAIT) for found in tcp_sockets("self", state)]
    used = {int(found[1].rpartition(":")[2], 16) for found in fields}
    taken = sum(first <= port <= last for port in used)
    count = last - first + 1
    return Ports(count, count - taken, _not_shared())


def _unusable(directory: Path) -> str | None:
    """Why runs can't be kept in a directory, in a clause: what a run does there is tried."""
    trial = directory / f".clusterkit-{secrets.token_hex(8)}"
    try:
        trial.mkdir(mode=0o700)
    except OSError as error:
        return f"nothing can be written in {directory} ({error.strerror})"
    try:
        os.mkfifo(trial / "progress", 0o600)
        with (trial / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return f"its file system has no named pipes or locks, or no room ({error.strerror})"
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return None


def _no_temporary() -> str | None:
    try:
        tempfile.gettempdir()
    except OSError as error:
        return error.strerror or str(error)
    named = os.environ.get("TMPDIR")
    return f"TMPDIR is {named}, which can't be written" if named and not os.access(named, os.W_OK | os.X_OK) else None


def _not_shared() -> str | None:
    """Why a server can't join a port that is held, as TensorFlow's does, or be reached there; None where it can."""
    try:
        held = claim()
    except NoPorts:
        return "no free port is found"
    with held, socket.socket() as server, socket.socket() as client:
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(held.getsockname())
            server.listen(1)
        except OSError as error:
            return f"a port that is held can't be listened on with SO_REUSEPORT ({error.strerror})"
        try:
            client.settimeout(5)
            client.connect((HOST, held.getsockname()[1]))
        except OSError as error:
            return f"a server at {HOST} can't be reached ({error.strerror or error})"
        with suppress(OSError):
            server.accept()[0].close()
    return None

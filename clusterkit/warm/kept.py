"""The kept server: the user's warm server of the last run, which `clusterkit warm auto` asks for.

It exits after some time without a run, and with the session leader of its terminal: the shell, which ends when the
window closes or the login ends. Why not ask logind: containers and other systems have none, and its session
(the control group) already decides which runs a server serves.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from clusterkit.system import procfs
from clusterkit.system.files import make_private
from clusterkit.warm import confinement
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.warm_client import SharedServer, WarmServerError, all_servers, stop, warm_dir
from clusterkit.words.errors import ClusterkitError

AUTO = "auto"  # a file in the directory of the user's warm servers: `up` keeps one
SUGGESTED = "suggested"  # a file there, as old as the last suggestion
IDLE = 15 * 60.0  # seconds
A_DAY = 24 * 3600.0


def kept_server(launch: Launch, directory: Path, process: int) -> SharedServer | str | None:
    """Start the kept server for runs of the terminal of this process, unless it is up. Other idle ones are stopped.

    Returns None if none is to be kept, and a sentence if it can't be started. `launch` is without a run's marks.
    """
    if not (directory / AUTO).exists() or not _serves_itself() or (leader := _session_leader(process)) is None:
        return None
    place = SharedServer(directory, launch, "\n".join([launch.preload.path or "", *_session()]))
    try:
        for path, server in all_servers(directory):
            if path != place.socket and server.get("kept") and not server["runs"]:
                stop(path)
        place.start(IDLE, leader)
    except WarmServerError as error:
        return f"{error} `clusterkit warm auto` tries it again, `clusterkit warm auto --off` does without."
    except ClusterkitError as error:
        return str(error)
    finally:
        os.close(leader)
    return place


def suggestion(launch: Launch) -> str | None:
    """Return a line on `clusterkit warm auto` for a run that started without a warm server; None if it was said today.

    `launch` is one that a warm server could serve.
    """
    directory, now = warm_dir(), time.time()
    told = directory / SUGGESTED
    with suppress(OSError):
        if (directory / AUTO).exists() or SharedServer(directory, launch).socket.exists() or not _serves_itself():
            return None
        if not told.exists() or not 0 <= now - told.stat().st_mtime < A_DAY:
            make_private(directory)
            told.touch()
            return "Most of the start was the import of TensorFlow. To keep it for the next run: clusterkit warm auto"
    return None


def _serves_itself() -> bool:
    """Whether a server that this process starts could serve it. A seccomp filter, for example, can't be compared."""
    return confinement.difference(os.getpid(), confinement.own_attributes()) is None


def _session() -> list[str]:
    """Return what differs between logins, and no server can adopt: one login's server is not asked by another."""
    found = []
    for name in ("cgroup", "sessionid"):
        with suppress(OSError):
            found.append(Path("/proc/self", name).read_text())
    return found


def _session_leader(process: int) -> int | None:
    """Open a pidfd of the leader of a process's session; of its parent's, if it leads one itself, as `up -d` does.

    None if there is none any more. As long as the session exists, the kernel does not use the leader's id again.
    """
    with suppress(OSError):
        leader, parent = os.getsid(process), procfs.parent(process)
        if leader == process and parent is not None and parent > 1:
            leader = os.getsid(parent)
        return None if leader == process else os.pidfd_open(leader)
    return None

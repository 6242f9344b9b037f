"""The warm servers from which a run can start: the user's server, a persistent server, or a Python session's server.

`clusterkit warm start` starts the user's server. A run starts a persistent server if `clusterkit warm auto` is enabled.
The persistent server remains after the run. It exits after some time without a run, or when the session leader of its
terminal exits: the shell, which ends when the window closes or the user logs out. logind is not used to detect the
logout, because containers and some systems do not have logind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from clusterkit.system import procfs
from clusterkit.system.files import make_private
from clusterkit.warm import confinement
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.warm_client import SharedServer, WarmServerError, WarmSession, all_servers, stop, warm_dir
from clusterkit.words.errors import ClusterkitError

UNUSED_IDLE = 20.0  # seconds; how long each server of a session, except the first, stays idle before it exits
AUTO_FILE = "auto"  # a file in the directory of the user's warm servers; if it exists, runs start a persistent server
SUGGESTED_FILE = "suggested"  # a file in the same directory, whose mtime is the time of the last hint to the user
IDLE = 15 * 60.0  # seconds; how long a persistent server stays idle before it exits
SUGGEST_EVERY = 24 * 3600.0  # seconds; the minimum time between hints


def servers_to_try(launch: Launch, session: WarmSession | None, lifeline: int | None) -> Iterator[SharedServer | str]:
    """Yield the servers from which the run can start: the user's, the persistent and the session's server.

    Start the persistent server and the session's server if necessary; if a start fails, yield the error message
    instead. `session` is None unless a Python process runs the job; `lifeline` is a pipe to that Python process.
    """
    users = warm_dir() if session is None else session.users_directory
    for home in dict.fromkeys((warm_dir(), users)):
        if (place := SharedServer(home, launch)).socket.exists():
            yield place
    persistent = persistent_server(_without_marks(launch), users, os.getpid() if session is None else session.pid)
    if persistent is not None:
        yield persistent
    if session is not None and lifeline is not None:
        with session.watched(lifeline) as ended:
            session_server = None if ended is None else _session_place(launch, session, ended)
        if session_server is not None:
            yield session_server


def _session_place(launch: Launch, session: WarmSession, ended: int) -> SharedServer | str:
    try:
        session.make_directory()
        place = SharedServer(session.directory, _without_marks(launch), launch.preload.needed_path)
        first = all(path == place.socket for path in session.directory.glob("*.sock"))
        place.start(None if first else UNUSED_IDLE, ended, clears=True)
    except WarmServerError as error:
        return str(error)
    return place


def _without_marks(launch: Launch) -> Launch:
    """Remove clusterkit's environment variables, which identify a run, since a warm server serves several runs."""
    env = {name: value for name, value in launch.env.items() if not name.startswith("CLUSTERKIT_")}
    return replace(launch, env=env)


def persistent_server(launch: Launch, directory: Path, process: int) -> SharedServer | str | None:
    """Return the persistent server for the terminal of `process`. Start it if necessary; stop others that are idle.

    Returns None if persistent servers are not enabled or not possible, and an error message on failure. `launch` must
    come from `_without_marks`.
    """
    if not (directory / AUTO_FILE).exists() or not _can_serve() or (leader := _session_leader(process)) is None:
        return None
    place = SharedServer(directory, launch, launch.preload.needed_path, _session())
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
    """Return a hint about `clusterkit warm auto` for a run that used no warm server; None if no hint is due.

    A hint is due at most once a day, and only if the user has no warm server but could use one. `can_share(launch)` has
    to be true.
    """
    directory, now = warm_dir(), time.time()
    suggested_at = directory / SUGGESTED_FILE
    with suppress(OSError):
        if (directory / AUTO_FILE).exists() or SharedServer(directory, launch).socket.exists() or not _can_serve():
            return None
        if not suggested_at.exists() or not 0 <= now - suggested_at.stat().st_mtime < SUGGEST_EVERY:
            make_private(directory)
            suggested_at.touch()
            return "Most of the start was the import of TensorFlow. To keep it for the next run: clusterkit warm auto"
    return None


def _can_serve() -> bool:
    """Return whether this process could use a warm server that it starts. Seccomp filters can make this impossible."""
    return confinement.difference(os.getpid(), confinement.own_attributes()) is None


def _session() -> list[str]:
    """Return attributes that differ between logins, so that each login has its own persistent server."""
    attributes = []
    for name in ("cgroup", "sessionid"):
        with suppress(OSError):
            attributes.append(Path("/proc/self", name).read_text())
    return attributes


def _session_leader(process: int) -> int | None:
    """Return a pidfd of the leader of a process's session; None if the leader has exited.

    If the process itself is the leader, as with `up -d`, use the session of its parent. The kernel does not reuse the
    leader's pid while the session exists, so the pid can't belong to another process.
    """
    with suppress(OSError):
        leader, parent = os.getsid(process), procfs.parent(process)
        if leader == process and parent is not None and parent > 1:
            leader = os.getsid(parent)
        return None if leader == process else os.pidfd_open(leader)
    return None

"""Starts, queries and stops the warm servers of the user and of sessions. A session is a Python process."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from clusterkit.job.options import GivenOptions
from clusterkit.store.store import state_dir
from clusterkit.system import exchange, procfs
from clusterkit.system.files import make_private, read_regular, why_not_reached
from clusterkit.system.ownership import check_peer
from clusterkit.system.process import first_readable, start_session
from clusterkit.task.entry import ENTRY
from clusterkit.warm.fork_client import UP_WITHIN, Launch
from clusterkit.warm.servable import at_import
from clusterkit.words.errors import ClusterkitError, RunDirectoryError
from clusterkit.words.secrets import is_harmless

ANSWER_WITHIN = 10.0  # seconds; the time limit for a server's answer
IMPORTED_WITHIN = 30.0  # seconds; the time limit for the imports if another process has started the server
ROLES = ("guardian", "supervisor")
LONGEST = 107  # bytes; the maximum length of a Unix socket's path
LONGEST_REASON = 1 << 16  # bytes; a longer message of a server that failed to start is not read
FILE_NAME = 24  # bytes; the maximum length of a file name in a session's directory, including the slash before it


class WarmServerError(ClusterkitError):
    """Raised if a warm server can't be started or does not answer."""


def warm_dir() -> Path:
    return state_dir() / "warm"


class SharedServer:
    """A warm server, running or not, for one interpreter, one environment and one set of imports.

    `path` is a directory from which modules are imported, in addition to `sys.path`. `login` identifies the only login
    that may use the server.
    """

    def __init__(self, directory: Path, launch: Launch, path: str | None = None, login: Sequence[str] = ()) -> None:
        identity = [launch.python, sorted(at_import(launch.whole_env).items()), launch.preload.modules, ENTRY]
        identity += [] if path is None else [path]
        identity += login
        self.key = hashlib.blake2b(json.dumps(identity).encode(), digest_size=8).hexdigest()
        self.socket = directory / f"{self.key}.sock"
        self.log = directory / f"{self.key}.log"
        self._launch = launch
        self._path = path

    def start(self, idle: float | None, owner: int | None = None, clears: bool = False) -> dict[str, Any]:
        """Start the server if it is not running. Wait for its imports, and return its status. Raises WarmServerError.

        The server exits after `idle` seconds without a run, or when its owner ends; `owner` is the pidfd of a process.
        If `clears` is True, the server removes its directory when the owner ends. If a server with an owner fails to
        start, later calls do not try to start it again.
        """
        if len(os.fsencode(self.socket)) > LONGEST:
            raise WarmServerError(f"{self.socket} is too long for a socket. Set CLUSTERKIT_HOME to a shorter path.")
        given_up = self.socket.with_suffix(".failed")
        with _locked(self.socket.with_suffix(".lock")):
            try:
                if owner is not None and given_up.exists():
                    raise WarmServerError(read_regular(given_up, LONGEST_REASON).decode(errors="replace"))
                return self._start_or_join(idle, owner, clears)
            except OSError as error:
                raise WarmServerError(f"{self.socket.parent} can't be used: {error.strerror or error}.") from None
            except WarmServerError as error:
                if owner is not None:
                    with suppress(OSError):
                        given_up.write_text(str(error))
                raise

    def _start_or_join(self, idle: float | None, owner: int | None, clears: bool) -> dict[str, Any]:
        is_new = not self._listens()
        if is_new:
            self._start(idle, owner, clears)
        try:
            status = ask(self.socket, {"do": "status"}, timeout=UP_WITHIN if is_new else IMPORTED_WITHIN)
        except (OSError, ValueError):
            what = "did not become ready" if is_new else "does not answer"
            raise WarmServerError(f"The warm server {what}. Its log: {self.log}") from None
        if status["problem"]:
            raise WarmServerError(f"The warm server failed: {status['problem']}. Its log: {self.log}")
        return status

    def _listens(self) -> bool:
        """Return whether a server of this user listens. Raises ForeignPeer if another user's process listens."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
            try:
                client.connect(str(self.socket))
            except OSError:
                return False
            check_peer(client)
        return True

    def _start(self, idle: float | None, owner: int | None, clears: bool) -> None:
        self.socket.unlink(missing_ok=True)  # a killed server may have left its socket behind
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
            listener.bind(str(self.socket))
            self.socket.chmod(0o600)
            listener.listen(128)
            imports = {"tensorflow": True, "preload": self._launch.preload.modules, "path": self._path}
            options = {**imports, "socket": str(self.socket), "idle": idle, "owner": owner, "clears": clears}
            argv = [self._launch.python, ENTRY, "0", str(listener.fileno()), "share", json.dumps(options)]
            descriptors = (listener.fileno(), *(() if owner is None else (owner,)))
            with self.log.open("ab") as log:
                process = start_session(argv, log, _server_env(self._launch), "/", descriptors)
            process.wait()  # `process` exits as soon as it has forked the server


def _server_env(launch: Launch) -> dict[str, str]:
    """Return the variables that a server needs: those that are read during imports, and others that are no secrets.

    The server outlives the run that starts it and serves others, which bring variables of their own. Modules of the
    user's choice may read any variable when they are imported, so a server that imports some gets all.
    """
    env = launch.whole_env
    if launch.preload.modules:
        return env
    needed = at_import(env)
    return {name: value for name, value in env.items() if name in needed or is_harmless(name)}


def ask(
    path: Path, message: Mapping[str, Any], descriptors: Sequence[int] = (), timeout: float = ANSWER_WITHIN
) -> dict[str, Any]:
    """Send a request to the warm server at the socket `path`, and return the answer.

    Raises OSError if no server listens there, or if the server does not give a valid answer in time; ForeignPeer, which
    is an OSError, if the server is another user's. The request contains the environment, so nothing is sent then.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
        client.settimeout(timeout)
        client.connect(str(path))
        check_peer(client)
        return exchange.answer(client, exchange.ask(client, message, descriptors, timeout), bytearray())


def pids_of_run(run_id: str, home: Path) -> dict[str, int]:
    """Return the pids of a run's live guardian and supervisor, by role; {} if no warm server has started the run."""
    pids = dict[str, int]()
    for pid in procfs.all_pids():
        argv = procfs.argv_of(pid)
        if argv[4:5] == [run_id] and procfs.environ(pid).get("CLUSTERKIT_HOME") == str(home):
            pids.update((role, pid) for role in argv[5:6] if role in ROLES)
    return pids


def stop(path: Path) -> bool:
    """Stop the warm server at the socket `path`. Return False if it is still running after ANSWER_WITHIN seconds."""
    try:
        pidfd = os.pidfd_open(ask(path, {"do": "status"})["pid"])
    except OSError as error:
        return not isinstance(error, TimeoutError)
    try:
        with suppress(OSError):  # the server may have exited in the meantime
            ask(path, {"do": "stop"})
        return first_readable((pidfd,), ANSWER_WITHIN) is not None
    finally:
        os.close(pidfd)


def all_servers(directory: Path | None = None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each warm server's socket and status. Remove the sockets of dead servers. Raises RunDirectoryError."""
    directory = directory or warm_dir()
    if why := why_not_reached(directory):
        raise RunDirectoryError(f"{directory} can't be used: {why}.")
    for path in sorted(directory.glob("*.sock")):
        try:
            yield path, ask(path, {"do": "status"})
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            yield path, {"problem": f"it does not answer ({error.strerror or error})"}


def description(server: Mapping[str, Any]) -> str:
    """Format a warm server's status: pid, imports, memory, runs, and how long the server will remain."""
    if server["problem"]:
        return str(server["problem"])
    left = "while runs are live" if server["left"] is None else f"for another {server['left'] / 60:.0f} min"
    left += ", or until the terminal closes" if server.get("kept") else ""
    memory = int((procfs.status_of(server["pid"], "RssAnon") or "0").split()[0]) // 1024
    what = ", ".join(["tensorflow", *(server["preload"] or ()), f"{memory} MB"])
    return f"pid {server['pid']}, {what}, {server['runs']} of {server['made']} runs live; it stays {left}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WarmServerError(f"{path.parent} can't be used: {error.strerror}.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class WarmSession:
    """A Python process, the directory of its warm servers, and the directory of the user's warm servers."""

    pid: int
    directory: Path
    users_directory: Path

    @classmethod
    def new(cls) -> WarmSession:
        """Return a session for this process. Its directory does not exist until `make_directory` is called."""
        name = f"clusterkit-warm-{token_hex(8)}"
        fits = len(os.fsencode(usual := tempfile.gettempdir())) + 1 + len(name) + FILE_NAME <= LONGEST
        return cls(os.getpid(), Path(usual if fits else "/tmp", name), warm_dir())

    def make_directory(self) -> None:
        """Create the session's directory. Raises WarmServerError if another user has created a file with this name."""
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            seen = self.directory.lstat()
        except OSError as error:
            raise WarmServerError(f"{self.directory} can't be used: {error.strerror}.") from None
        is_private = not seen.st_mode & 0o077  # a symbolic link is not, since its mode is 0777
        if not is_private or seen.st_uid != os.geteuid():
            raise WarmServerError(f"{self.directory} is not private to this user, so no warm server can listen there.")

    def remove_directory(self) -> None:
        """Remove the session's directory with all its files."""
        with suppress(OSError):
            for path in self.directory.iterdir():
                path.unlink(missing_ok=True)
            self.directory.rmdir()

    @contextmanager
    def watched(self, lifeline: int) -> Iterator[int | None]:
        """Yield a pidfd by which a server can notice the end of the session's process; None if the process has ended.

        `lifeline` is a run's pipe to the process. While the pipe is open, the pid has not been reused. A server can't
        watch the pipe instead of a pidfd, since the server outlives the run.
        """
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            yield None
            return
        try:
            yield pidfd if first_readable((lifeline,), 0) is None else None
        finally:
            os.close(pidfd)


class ApiRequest(NamedTuple):
    """A job from the Python API. The end of the Python process closes the pipe `lifeline`, which ends the run."""

    job: GivenOptions
    lifeline: int
    session: WarmSession

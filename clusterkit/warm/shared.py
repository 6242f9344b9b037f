"""Warm servers that runs share: where they listen, how they are started, asked and stopped."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clusterkit.client.control_socket import LONGEST
from clusterkit.client.store import state_dir
from clusterkit.system import procfs
from clusterkit.system.exchange import exchange
from clusterkit.task.entry import ENTRY
from clusterkit.warm.run_server import UP_WITHIN, Launch
from clusterkit.warm.servable import at_import
from clusterkit.words.errors import ClusterkitError

ANSWER_WITHIN = 10.0  # seconds
IMPORTED_WITHIN = 30.0  # seconds for a server that somebody else has started
ROLES = ("guardian", "supervisor")


class WarmServerError(ClusterkitError):
    """A warm server that can't be started, or does not answer as it should."""


def warm_dir() -> Path:
    """Where the sockets and logs of this user's warm servers are."""
    return state_dir() / "warm"


class SharedServer:
    """The place of one warm server: that of an interpreter, an environment and what is imported.

    `own` is a directory from which modules to preload may be imported too.
    """

    def __init__(self, directory: Path, launch: Launch, own: str | None = None) -> None:
        counts = [launch.python, sorted(at_import(launch.whole_env).items()), launch.preload.modules, ENTRY]
        counts += [] if own is None else [own]
        self.key = hashlib.blake2b(json.dumps(counts).encode(), digest_size=8).hexdigest()
        self.socket = directory / f"{self.key}.sock"
        self.log = directory / f"{self.key}.log"
        self._launch = launch
        self._own = own

    def start(self, idle: float | None, rope: int | None = None) -> dict[str, Any]:
        """Start the server, unless it is there, and wait until it has imported. Raises WarmServerError.

        It ends after `idle` seconds without a run, and when `rope` can be read or is at its end: then it clears its
        directory, too, and where it does not come up no other is tried.
        """
        if len(os.fsencode(self.socket)) > LONGEST:
            raise WarmServerError(f"{self.socket} is too long for a socket. Set CLUSTERKIT_HOME to a shorter path.")
        given_up = self.socket.with_suffix(".failed")
        with _locked(self.socket.with_suffix(".lock")):
            try:
                if rope is not None and given_up.exists():
                    raise WarmServerError(given_up.read_text())
                return self._up(idle, rope)
            except OSError as error:
                raise WarmServerError(f"{self.socket.parent} can't be used: {error.strerror or error}.") from None
            except WarmServerError as error:
                if rope is not None:
                    with suppress(OSError):
                        given_up.write_text(str(error))
                raise

    def _up(self, idle: float | None, rope: int | None) -> dict[str, Any]:
        is_new = not self._listens()
        if is_new:
            self._start(idle, rope)
        try:
            told = self.ask({"do": "status"}, timeout=UP_WITHIN if is_new else IMPORTED_WITHIN)
        except (OSError, ValueError):
            what = "did not come up" if is_new else "does not answer"
            raise WarmServerError(f"The warm server {what}. Its log: {self.log}") from None
        if told["problem"]:
            raise WarmServerError(f"There is no warm server: {told['problem']}. Its log: {self.log}")
        return told

    def _listens(self) -> bool:
        """Whether there is a server; it may be at its imports yet, and answer later."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
            try:
                client.connect(str(self.socket))
            except OSError:
                return False
        return True

    def ask(
        self, message: Mapping[str, Any], descriptors: Sequence[int] = (), timeout: float = ANSWER_WITHIN
    ) -> dict[str, Any]:
        """Ask the server. Raises OSError where there is none, or it ends without an answer."""
        return ask(self.socket, message, descriptors, timeout)

    def _start(self, idle: float | None, rope: int | None) -> None:
        self.socket.unlink(missing_ok=True)  # of one that was killed
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
            listener.bind(str(self.socket))
            self.socket.chmod(0o600)
            listener.listen(128)
            options = {
                "tensorflow": True,
                "preload": self._launch.preload.modules,
                "path": self._own,
                "socket": str(self.socket),
                "idle": idle,
                "rope": rope,
            }
            kept = (listener.fileno(), *(() if rope is None else (rope,)))
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    [self._launch.python, ENTRY, "0", str(listener.fileno()), "share", json.dumps(options)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=self._launch.whole_env,
                    start_new_session=True,
                    pass_fds=kept,
                )
            process.wait()  # the server is a fork of that process, and nobody's child


def ask(
    path: Path, message: Mapping[str, Any], descriptors: Sequence[int] = (), timeout: float = ANSWER_WITHIN
) -> dict[str, Any]:
    """Ask the server that listens there. Raises OSError where there is none, or it ends without an answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
        client.settimeout(timeout)
        client.connect(str(path))
        return exchange(client, message, descriptors, timeout)


def handed_over(run_id: str, home: Path) -> dict[str, int]:
    """`guardian` and `supervisor` to their pids, as far as they are there, for a run that began in a warm server."""
    found = dict[str, int]()
    for pid in procfs.all_pids():
        words = procfs.argv_of(pid)
        if words[4:5] == [run_id] and procfs.environ(pid).get("CLUSTERKIT_HOME") == str(home):
            found.update((word, pid) for word in words[5:6] if word in ROLES)
    return found


def stop(path: Path) -> bool:
    """End the server that listens there, if there is one; return whether it is gone in time."""
    try:
        pidfd = os.pidfd_open(ask(path, {"do": "status"})["pid"])
    except OSError as error:
        return not isinstance(error, TimeoutError)
    try:
        with suppress(OSError):  # it may end by itself just now
            ask(path, {"do": "stop"})
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        return bool(ended.poll(ANSWER_WITHIN * 1000))
    finally:
        os.close(pidfd)


def all_servers() -> Iterator[tuple[Path, dict[str, Any]]]:
    """This user's warm servers: the socket of each, and what it tells. Sockets of dead ones are removed."""
    for path in sorted(warm_dir().glob("*.sock")):
        try:
            yield path, ask(path, {"do": "status"})
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            yield path, {"problem": f"it does not answer ({error.strerror or error})"}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """So that two commands do not start two servers for one place."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WarmServerError(f"{path.parent} can't be used: {error.strerror}.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

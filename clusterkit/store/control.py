"""Controls a live run through its control socket, or through its guardian if the supervisor does not answer."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import signal
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.words import protocol
from clusterkit.words.errors import CannotLook, ClusterkitError, RunDirectoryError

LONGEST = 107  # bytes; the maximum length of a Unix socket's path
STALE = 3600.0  # seconds; an older socket without a listener was left behind by a killed run
TIMEOUT = 10.0  # seconds; the default limit for a connection attempt or a call
RETRY_EVERY = 0.02  # seconds between two attempts to connect to a run that is just starting
SIGNALS_APART = 0.1  # seconds between two signals, so that the system does not merge them


def listen(run: RunDirectory) -> tuple[socket.socket, Callable[[], None]]:
    """Listen for clients; return the socket and a function that removes its file. Raises RunDirectoryError."""
    path, part = run.control_socket, run.control_path.with_name(f".{run.control_path.name}.part")
    try:
        if len(os.fsencode(path)) > LONGEST:
            path = _short_path(run.path)
            remove_stale(path.parent, time.time() - STALE)
            part.write_text(str(path))
        _unlink_if_stale(path)
        server = _bound(path)
        if path != run.control_socket:
            part.replace(run.control_path)
    except OSError as error:
        raise RunDirectoryError(f"Cannot create the control socket {path}: {error.strerror or error}.") from None

    def unlink() -> None:
        with suppress(OSError):
            path.unlink()

    return server, unlink


def _bound(path: Path) -> socket.socket:
    """Return a listening socket whose path appears once clients can connect. Raises OSError."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    new = path.with_name(f".{path.name[1:]}")  # no longer than the final name, which may have the maximum length
    try:
        if os.path.lexists(path):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        new.unlink(missing_ok=True)
        server.bind(str(new))
        new.chmod(0o600)
        server.listen(128)
        server.setblocking(False)
        new.rename(path)
    except BaseException:
        server.close()
        raise
    return server


def _unlink_if_stale(path: Path) -> None:
    """Remove a socket that a killed run with the same directory left behind. Raises OSError.

    The caller holds the run's lock, so the run has no other supervisor. A socket with a listener is kept even so:
    containers that share a temporary directory may have different run directories at the same path.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode) and not _is_served(path):
            path.unlink()


def remove_stale(directory: Path, before: float) -> None:
    """Remove sockets without a listener that were created before the wall time `before`.

    Such sockets were left behind by runs that were killed with their guardians. Nothing else removes the sockets, since
    the run directory that names the socket may be gone.
    """
    for path in directory.glob("*.sock"):
        with suppress(OSError):
            if path.lstat().st_mtime < before:
                _unlink_if_stale(path)


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
        client.setblocking(False)
        return client.connect_ex(str(path)) != errno.ECONNREFUSED


def address(run: RunDirectory) -> Path:
    try:
        return Path(os.fsdecode(run.control_path.read_bytes()))
    except OSError:
        return run.control_socket


def connect(run: RunDirectory, timeout: float) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # If the server's backlog is full, connecting a non-blocking socket fails at once. A blocking socket waits in the
    # kernel, for as long as the send timeout.
    seconds, part = divmod(timeout, 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(seconds), int(part * 1e6)))
    try:
        client.connect(str(address(run)))
        client.settimeout(timeout)
    except BaseException:
        client.close()
        raise
    return client


def temporary_directory(more: int) -> str:
    """Return the temporary directory, or /tmp if its path plus `more` bytes is too long for a socket."""
    place = tempfile.gettempdir()
    return place if len(os.fsencode(place)) + more <= LONGEST else "/tmp"


def make_private(directory: Path) -> bool:
    """Create a directory if necessary; return whether only this user has access to it. Raises OSError."""
    directory.mkdir(mode=0o700, exist_ok=True)
    seen = directory.lstat()
    return seen.st_uid == os.getuid() and not seen.st_mode & 0o077 and not directory.is_symlink()


def _short_path(run: Path) -> Path:
    own = f"clusterkit-{os.getuid()}"
    directory = Path(temporary_directory(len(own) + 32), own)
    if not make_private(directory):
        raise RunDirectoryError(f"Cannot create a control socket in {directory}: other users have access to it.")
    return directory / f"{hashlib.blake2b(os.fsencode(run), digest_size=12).hexdigest()}.sock"


class NotLive(ClusterkitError):
    """The run has no live supervisor, or its supervisor does not answer."""


class Refused(ClusterkitError):
    """The run refused the request; the message says why."""

    __module__ = "clusterkit"


class Client:
    """A connection to a live run, with a timeout for each call. Raises NotLive if the run is not live."""

    def __init__(self, run: RunDirectory, timeout: float = TIMEOUT) -> None:
        self._run = run
        self._socket = _connected(run, timeout)
        self._file = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the result. Raises Refused, or NotLive if the run does not answer or ends."""
        call_id = next(self._ids)
        try:
            self._socket.sendall(protocol.call(method, params, call_id))
            while (message := self._next()) is not None:
                if message.get("id") == call_id:
                    return self._result(message)
        except TimeoutError:
            raise NotLive(f"The run {self._run.run_id} did not answer in time.") from None
        except OSError:
            pass
        raise NotLive(f"The run {self._run.run_id} ended before it answered.")

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> dict[str, Any] | None:
        line = self._file.readline()
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        if "error" in message:
            raise Refused(message["error"]["message"])
        result: dict[str, Any] = message["result"]
        return result


def _connected(run: RunDirectory, timeout: float) -> socket.socket:
    """Connect to a run. Wait for the socket, since a run is live before its socket exists. Raises NotLive."""
    until = time.monotonic() + timeout
    while True:
        if not run.is_live():
            raise NotLive(f"The run {run.run_id} is not live.")
        try:
            return connect(run, timeout)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > until:
                why = "it is still starting. Try again later"
                raise NotLive(f"The run {run.run_id} does not answer yet: {why}.") from None
        except OSError as error:
            raise NotLive(f"The run {run.run_id} does not answer: {error.strerror or error}.") from None
        time.sleep(RETRY_EVERY)


def signal_guardian(run: RunDirectory, at_once: bool) -> bool:
    """Send SIGTERM to a run's guardian, or SIGINT twice if `at_once`; return whether the guardian was found."""
    with suppress(CannotLook, OSError):
        if (guardian := _guardian_of(run)) is not None:
            os.kill(guardian, signal.SIGINT if at_once else signal.SIGTERM)
            if at_once:
                time.sleep(SIGNALS_APART)
                os.kill(guardian, signal.SIGINT)
            return True
    return False


def _guardian_of(run: RunDirectory) -> int | None:
    """Return the guardian's pid: the supervisor's parent. None if the guardian is not found in this pid namespace."""
    info = run.info()
    if info is None or str(run.lock_file.resolve()) not in procfs.links(info.pid):
        return None
    guardian = procfs.parent(info.pid)
    if guardian is None or guardian <= 1:
        return None
    argv = procfs.argv_of(guardian)  # a forked supervisor has its guardian's argv; a warm server gives each its own
    return guardian if argv == procfs.argv_of(info.pid) or "guardian" in argv else None

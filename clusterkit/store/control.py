"""Controls a live run through its control socket, or through its guardian if the supervisor does not answer."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import socket
import stat
import struct
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from clusterkit.store.directory import RunDirectory
from clusterkit.store.trust import refuse_foreign
from clusterkit.system import procfs
from clusterkit.system.files import short_path
from clusterkit.system.ownership import ForeignPeer, check_peer
from clusterkit.words import protocol
from clusterkit.words.errors import CannotLook, ClusterkitError, RunDirectoryError

TIMEOUT = 10.0  # seconds; the default limit for a connection attempt or a call
RETRY_EVERY = 0.02  # seconds between attempts to connect to a run that is just starting
LONGEST_ANSWER = 1 << 24  # bytes; the maximum length of a line from a run
CHUNK = 1 << 16  # bytes; the maximum amount to read at once
SIGNALS_APART = 0.1  # seconds between two signals, so that the system does not merge them


def listen(run: RunDirectory) -> socket.socket:
    """Listen for clients of a run. Raises RunDirectoryError."""
    path = run.control_socket
    try:
        _unlink_if_stale(path)
        return _bound(path)
    except OSError as error:
        raise RunDirectoryError(f"Cannot create the control socket {path}: {error.strerror or error}.") from None


def _bound(path: Path) -> socket.socket:
    """Return a listening socket whose path appears once clients can connect. Raises OSError."""
    server = _unix_socket()
    new = path.with_name(f".{path.name}")
    try:
        if os.path.lexists(path):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        new.unlink(missing_ok=True)
        with short_path(new) as short:
            server.bind(short)
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

    The caller holds the run's lock, so the run has no other supervisor. Even so, a socket with a listener is kept.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode) and not _is_served(path):
            path.unlink()


def _is_served(path: Path) -> bool:
    with _unix_socket() as client, short_path(path) as short:
        client.setblocking(False)
        return client.connect_ex(short) != errno.ECONNREFUSED


def _unix_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)


def connect(run: RunDirectory, timeout: float) -> socket.socket:
    client = _unix_socket()
    # If the server's backlog is full, connecting a non-blocking socket fails at once. A blocking socket waits in the
    # kernel, for as long as the send timeout.
    seconds, part = divmod(timeout, 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(seconds), int(part * 1e6)))
    try:
        with short_path(run.control_socket) as short:
            client.connect(short)
        check_peer(client)
        client.settimeout(timeout)
    except BaseException:
        client.close()
        raise
    return client


class NotLive(ClusterkitError):
    """The run has no live supervisor, or its supervisor does not answer."""


class Refused(ClusterkitError):
    """The run refused the request; the message says why."""

    __module__ = "clusterkit"


class Client(AbstractContextManager["Client"]):
    """A connection to a live run, with a timeout for each call.

    Raises NotLive if the run is not live, and RunDirectoryError if other users own its directory or can write to it.
    """

    def __init__(self, run: RunDirectory, timeout: float = TIMEOUT) -> None:
        refuse_foreign(run)
        self._run, self._timeout = run, timeout
        self._socket = _connected(run, timeout)
        self._received = bytearray()  # what has arrived after the last line
        self._ids = itertools.count(1)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the result. Raises Refused, or NotLive if the run does not answer or ends."""
        call_id = next(self._ids)
        until = time.monotonic() + self._timeout
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(protocol.call(method, params, call_id))
            while (line := self._read_line(until)) is not None:
                message = protocol.parse_answer(line)
                if message.get("id") == call_id:
                    return _result(message)
        except TimeoutError:
            raise NotLive(f"The run {self._run.run_id} did not answer in time.") from None
        except ValueError:
            raise NotLive(f"The run {self._run.run_id} gave an invalid answer.") from None
        except OSError:
            pass
        raise NotLive(f"The run {self._run.run_id} ended before it answered.")

    def _read_line(self, until: float) -> bytes | None:
        """Return the next line; None at the end. Raises TimeoutError, OSError, and ValueError for an endless line."""
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > LONGEST_ANSWER:
                raise ValueError("the answer is too long")
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            if not (more := self._socket.recv(CHUNK)):
                return None
            self._received += more
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def close(self) -> None:
        self._socket.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _result(message: dict[str, Any]) -> dict[str, Any]:
    """Return the result in an answer. Raises Refused, or ValueError if the answer has neither a result nor an error."""
    error, result = message.get("error"), message.get("result")
    if isinstance(error, dict):
        raise Refused(str(error.get("message")))
    if not isinstance(result, dict):
        raise ValueError("the answer has no result")
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
        except ForeignPeer as error:
            raise NotLive(f"Nothing was sent to the control socket of {run.run_id}: {error.strerror}.") from None
        except OSError as error:
            raise NotLive(f"The run {run.run_id} does not answer: {error.strerror or error}.") from None
        time.sleep(RETRY_EVERY)


def signal_guardian(run: RunDirectory, at_once: bool) -> bool:
    """Send SIGTERM to a run's guardian, or SIGINT twice if `at_once`; return whether the guardian was found.

    Raises RunDirectoryError if other users own the run's directory or can write to it.
    """
    refuse_foreign(run)
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
    if info is None or not run.is_live():  # not live, for example, if the lock is a link to a file of another process
        return None
    if str(run.path.resolve() / run.lock_file.name) not in procfs.links(info.pid):
        return None
    guardian = procfs.parent(info.pid)
    if guardian is None or guardian <= 1:
        return None
    argv = procfs.argv_of(guardian)  # a forked supervisor shares its guardian's argv, unless a warm server sets both
    return guardian if argv == procfs.argv_of(info.pid) or "guardian" in argv else None

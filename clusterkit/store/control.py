"""Controls a live run: through its control socket, or its guardian if the supervisor does not answer."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from clusterkit.store.control_socket import connect
from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.words import protocol
from clusterkit.words.errors import CannotLook, ClusterkitError

TIMEOUT = 10.0  # seconds
LOOK_EVERY = 0.02  # seconds between two attempts to connect to a run that is just starting
APART = 0.1  # seconds between two signals, which would be one otherwise


class NotLive(ClusterkitError):
    """The run has no live supervisor to answer."""


class Refused(ClusterkitError):
    """The run refused the request; the message says why."""

    __module__ = "clusterkit"


class Client:
    """A connection to a live run, with a timeout for every call. Raises NotLive if the run is not live, or ends."""

    def __init__(self, run: RunDirectory, timeout: float = TIMEOUT) -> None:
        self._run = run
        self._socket = _connected(run, timeout)
        self._file = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the result. Raises Refused or NotLive."""
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
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
    """Connect to a run. A starting run is live before it has a socket, so wait for that."""
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
        time.sleep(LOOK_EVERY)


def signal_guardian(run: RunDirectory, at_once: bool) -> bool:
    """Have the guardian end a run, as SIGTERM does; `at_once`, as two Ctrl-C do. Return whether it was found."""
    with suppress(CannotLook, OSError):
        if (guardian := _guardian_of(run)) is not None:
            os.kill(guardian, signal.SIGINT if at_once else signal.SIGTERM)
            if at_once:
                time.sleep(APART)
                os.kill(guardian, signal.SIGINT)
            return True
    return False


def _guardian_of(run: RunDirectory) -> int | None:
    """The guardian's pid: the parent of the process that has the run's lock, if both are in this pid namespace."""
    info = run.info()
    if info is None or str(run.lock_file.resolve()) not in procfs.links(info.pid):
        return None
    guardian = procfs.parent(info.pid)
    if guardian is None or guardian <= 1:
        return None
    argv = procfs.argv_of(guardian)  # the supervisor's, of which it is a fork, unless a warm server has made both
    return guardian if argv == procfs.argv_of(info.pid) or "guardian" in argv else None

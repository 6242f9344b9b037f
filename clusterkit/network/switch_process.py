"""The switch's process: how it is started, asked and stopped. What it does is in `network/switch/`."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clusterkit.system.process import code_of, end_beside, start_beside
from clusterkit.words.errors import ClusterkitError

UP_WITHIN = 10.0  # seconds; it takes a tenth of one, and 10 ms more for each task
ANSWER_WITHIN = 5.0
END_WITHIN = 2.0
_MOST_AT_ONCE = 253  # descriptors in a message


class NetworkError(ClusterkitError):
    """The virtual network can't be made, or is gone, or does not answer."""


class Switch:
    """The process, and the namespaces that it made: `descriptors`. `pidfd` can be read once it has ended.

    Start it from the thread that lives as long as the supervisor: its parent-death signal is tied to that.
    """

    def __init__(self, plan: Mapping[str, Any], log: Path, env: Mapping[str, str]) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._half = b""
        self._stopped = False
        self.descriptors: list[int] = []
        self._channel, other = socket.socketpair()
        try:
            with other, log.open("ab") as errors:
                words = _argv(str(other.fileno()))
                self._process = start_beside(words, other.fileno(), errors.fileno(), {**os.environ, **env})
        except OSError as error:
            self._channel.close()
            raise NetworkError(f"The switch of the virtual network can't be started: {error.strerror}.") from None
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)
        try:
            self._ask(UP_WITHIN, {**plan, "parent": os.getpid()})
        except BaseException:
            self.stop()
            raise

    def ask(self, verb: str, **words: Any) -> Any:
        """Have it do something, and return the result. Raises NetworkError."""
        return self._ask(ANSWER_WITHIN, {"do": verb, **words})

    def stop(self) -> None:
        """End it, and let its namespaces go: they are gone when no task is in them any more."""
        if self._stopped:
            return
        self._stopped = True
        self._channel.close()
        end_beside(self._process, self.pidfd, END_WITHIN)
        for descriptor in (self.pidfd, *self.descriptors):
            os.close(descriptor)
        self.descriptors = []

    def _ask(self, within: float, request: Mapping[str, Any]) -> Any:
        with self._lock:
            number = next(self._ids)
            self._channel.settimeout(within)
            try:
                self._channel.sendall(json.dumps({"id": number, **request}).encode() + b"\n")
                while (answer := self._next())["id"] != number:
                    pass  # it came too late for the one that asked
            except TimeoutError:
                raise NetworkError(f"The switch did not answer within {within:g} s. Its log: {self._log}") from None
            except OSError:
                raise NetworkError(f"The switch of the virtual network has ended. Its log: {self._log}") from None
        if "error" in answer:
            raise NetworkError(f"The virtual network can't do that: {answer['error']}.")
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        """The next answer; the descriptors that come before the first one are kept."""
        while b"\n" not in self._half:
            more, descriptors, *_ = socket.recv_fds(self._channel, 1 << 16, _MOST_AT_ONCE, socket.MSG_CMSG_CLOEXEC)
            self.descriptors += descriptors
            if not more:
                raise ConnectionResetError
            self._half += more
        line, _, self._half = self._half.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def check(*words: str, within: float) -> str | None:
    """Have a process of its own try something; why it could not, in a clause. Raises OSError, TimeoutExpired."""
    tried = subprocess.run(_argv("check", *words), stdin=subprocess.DEVNULL, capture_output=True, timeout=within)
    if tried.returncode == 0:
        return tried.stdout.decode(errors="replace") or None
    last = tried.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return "the switch does not start" + "".join(f" ({line})" for line in last)


def _argv(*words: str) -> Sequence[str]:
    # Isolated, and without what the environment adds to Python: it needs the standard library only, and starts faster.
    return [sys.executable, "-I", "-S", "-c", code_of("clusterkit.network.switch.main"), *words]

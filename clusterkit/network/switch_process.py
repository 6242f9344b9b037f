"""Starts, queries and stops the switch process, whose code is in `network/switch/`."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusterkit.system.process import code_of, end_helper, start_helper
from clusterkit.words.errors import ClusterkitError

UP_WITHIN = 10.0  # seconds; it takes 0.1 s, and 10 ms more for each task
ANSWER_WITHIN = 5.0
END_WITHIN = 2.0
CHECKED_WITHIN = 5.0  # it takes 0.1 s
_DESCRIPTORS_PER_MESSAGE = 253  # the kernel's limit


class NetworkError(ClusterkitError):
    """The virtual network can't be created, has ended, or does not answer."""


class Switch:
    """The switch process and the namespaces that it created, as `descriptors`. `pidfd` is readable once it has ended.

    Create it in a thread that lives as long as the supervisor: its parent-death signal is tied to that thread.
    Raises NetworkError.
    """

    def __init__(self, plan: Mapping[str, Any], log: Path, env: Mapping[str, str]) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._partial_line = b""
        self._stopped = False
        self._captures = False
        self.descriptors: list[int] = []
        self._channel, other = socket.socketpair()
        try:
            with other, log.open("ab") as errors:
                argv = _argv(str(other.fileno()))
                self._process = start_helper(argv, other.fileno(), errors.fileno(), {**os.environ, **env})
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
        self._captures = plan["pcap"] is not None

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Send a request and return the result. Raises NetworkError."""
        return self._ask(ANSWER_WITHIN, {"do": verb, **arguments})

    def stop(self) -> None:
        """End the switch and release its namespaces, which the kernel removes once no task is in them."""
        if self._stopped:
            return
        self._stopped = True
        if self._captures:
            with suppress(NetworkError):
                self.ask("flush")  # before END_WITHIN begins, after which the switch is killed
        self._channel.close()
        end_helper(self._process, self.pidfd, END_WITHIN)
        for descriptor in (self.pidfd, *self.descriptors):
            os.close(descriptor)
        self.descriptors = []

    def _ask(self, within: float, request: Mapping[str, Any]) -> Any:
        with self._lock:
            number = next(self._ids)
            self._channel.settimeout(within)
            try:
                self._channel.sendall(json.dumps({"id": number, **request}).encode() + b"\n")
                while (answer := self._next_answer())["id"] != number:
                    pass  # the late answer to a request that timed out
            except TimeoutError:
                raise NetworkError(f"The switch did not answer within {within:g} s. Its log: {self._log}") from None
            except OSError:
                raise NetworkError(f"The switch of the virtual network has ended. Its log: {self._log}") from None
        if "error" in answer:
            raise NetworkError(f"The virtual network failed: {answer['error']}.")
        return answer["result"]

    def _next_answer(self) -> dict[str, Any]:
        """Read the next answer; keep the descriptors that are sent before the first one."""
        while b"\n" not in self._partial_line:
            more, descriptors, *_ = socket.recv_fds(
                self._channel, 1 << 16, _DESCRIPTORS_PER_MESSAGE, socket.MSG_CMSG_CLOEXEC
            )
            self.descriptors += descriptors
            if not more:
                raise ConnectionResetError
            self._partial_line += more
        line, _, self._partial_line = self._partial_line.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def why_not(network: bool, disk: bool) -> str | None:
    """Return why this machine can't create the network or the full disk, as a clause; None if it can. Takes 0.1 s."""
    argv = _argv("check", *(["network"] if network else []), *(["disk"] if disk else []))
    try:
        checked = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=CHECKED_WITHIN)
    except subprocess.TimeoutExpired:
        return f"a trial did not end within {CHECKED_WITHIN:g} s"
    except OSError as error:
        return f"the switch can't be started: {error.strerror}"
    if checked.returncode == 0:
        return checked.stdout.decode(errors="replace") or None
    last = checked.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return "the switch does not start" + "".join(f" ({line})" for line in last)


def _argv(*args: str) -> Sequence[str]:
    # Isolated and without site packages, which starts faster: the switch needs the standard library only.
    return [sys.executable, "-I", "-S", "-c", code_of("clusterkit.network.switch.main"), *args]

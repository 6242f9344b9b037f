"""The supervisor's interface to the virtual network: addresses, namespaces, impairments, resets and the full disk."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clusterkit.network.switch.links import Layer
from clusterkit.system.process import Helper, code_of
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Task, TaskType

UP_WITHIN = 10.0  # seconds; the time limit for the start, which usually takes 0.1 s plus 10 ms per task
ANSWER_WITHIN = 5.0  # seconds; the time limit for an answer to a later request
END_WITHIN = 2.0  # seconds; the time that the switch has to exit before it is killed
CHECK_TIMEOUT = 5.0  # seconds; the time limit for a check, which usually takes 0.1 s
_DESCRIPTORS_PER_MESSAGE = 253  # the kernel's limit for SCM_RIGHTS
PORT = 2222  # the port of every task's server, since each task has a different address
__all__ = ["Layer", "NetworkError", "NetworkPlan", "VirtualNetwork", "why_not"]


class NetworkError(ClusterkitError):
    """Raised if the virtual network can't be created, has ended, or does not answer."""


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The features of a virtual network."""

    tasks: Sequence[Task]
    seed: int  # the seed for the random choice of packets to lose or delay
    network: bool = True  # False if only the full disk is needed
    pcap: Path | None = None  # the file to which all packets are captured; None if packets are not captured
    disk: Path | None = None  # the directory that can be made full; None if a full disk is not needed
    cables: bool = True  # True to connect unimpaired tasks by veth pairs if possible; ignored if there is a capture


class VirtualNetwork:
    """The namespaces of a run's tasks, and the switch process that connects them. `pidfd` refers to the switch.

    The switch logs errors to `log`; `env` is added to the switch's environment. Create this object before any task
    starts, in a thread that lives as long as the supervisor: the switch is killed when this thread ends. Raises
    NetworkError.
    """

    def __init__(self, plan: NetworkPlan, log: Path, env: Mapping[str, str]) -> None:
        self._tasks = sorted(plan.tasks)
        self._index = {task: index for index, task in enumerate(self._tasks)}
        on_net, disk = self._tasks if plan.network else [], plan.disk
        self.addresses: Mapping[Task, str] = MappingProxyType(addresses_of(on_net))
        self.endpoints = endpoints_of(on_net)
        self._log = log
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._partial_line = b""
        self._stopped = self._captures = False
        self._descriptors: list[int] = []  # descriptors of the namespaces
        try:
            place = log.parent.absolute()
            self._scratch = None if disk is None else tempfile.mkdtemp(prefix="full-disk-", dir=place)
        except OSError as error:
            raise NetworkError(f"{log.parent} can't be written: {error.strerror}.") from None
        try:
            self._helper = Helper(lambda channel: _argv(str(channel)), log, env)
        except OSError as error:
            self._remove_scratch()
            raise NetworkError(f"The switch of the virtual network can't be started: {error.strerror}.") from None
        self.pid, self.pidfd, self._channel = self._helper.pid, self._helper.pidfd, self._helper.channel
        request = {
            "names": list(map(str, on_net)),
            "addresses": list(self.addresses.values()),
            "seed": plan.seed,
            "pcap": None if plan.pcap is None else os.path.abspath(plan.pcap),
            "cables": plan.cables,
            "disk": None if disk is None else {"path": os.path.abspath(disk), "scratch": self._scratch},
            "parent": os.getpid(),
        }
        try:
            self._call(UP_WITHIN, request)
        except BaseException:
            self.stop()
            raise
        self._captures = plan.pcap is not None

    def namespaces(self, task: Task) -> tuple[int, ...]:
        """Return the descriptors of the namespaces that a task has to join, in this order, all closed on exec."""
        shared = len(self._descriptors) - len(self.addresses)
        own = [shared + self._index[task]] if self.addresses else []
        return tuple(self._descriptors[i] for i in (*range(shared), *own))

    def impair(self, number: int, a: Collection[Task], b: Collection[Task], layer: Layer) -> None:
        """Add a layer with this number between each task in `a` and each task in `b`, in both directions."""
        self._request("impair", number=number, a=self._indices(a), b=self._indices(b), **asdict(layer))

    def reset(self, a: Collection[Task], b: Collection[Task]) -> int:
        """Reset the TCP connections between each task in `a` and each task in `b`; return their number."""
        count: int = self._request("reset", a=self._indices(a), b=self._indices(b))
        return count

    def fill_disk(self, number: int) -> None:
        """Make the plan's directory full: tasks can't write to it, except to files that are already open."""
        self._request("fill", number=number)

    def heal(self, number: int) -> None:
        """Heal the fault with this number: remove its layer, or free the disk."""
        self._request("heal", number=number)

    def stop(self) -> None:
        """End the switch and close the namespaces. The kernel removes a namespace once it contains no task."""
        if self._stopped:
            return
        self._stopped = True
        if self._captures:
            with suppress(NetworkError):
                self._request("flush")  # before `end`, which may kill the switch
        self._channel.close()
        self._helper.end(END_WITHIN)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
        self._remove_scratch()

    def _request(self, verb: str, **arguments: Any) -> Any:
        return self._call(ANSWER_WITHIN, {"do": verb, **arguments})

    def _call(self, within: float, request: Mapping[str, Any]) -> Any:
        with self._lock:
            number = next(self._ids)
            self._channel.settimeout(within)
            try:
                self._channel.sendall(json.dumps({"id": number, **request}).encode() + b"\n")
                while (answer := self._next_answer())["id"] != number:
                    pass  # skip late answers to earlier requests, which have timed out
            except TimeoutError:
                raise NetworkError(f"The switch did not answer within {within:g} s. Its log: {self._log}") from None
            except OSError:
                raise NetworkError(f"The switch of the virtual network has ended. Its log: {self._log}") from None
        if "error" in answer:
            raise NetworkError(f"The virtual network failed: {answer['error']}.")
        return answer["result"]

    def _next_answer(self) -> dict[str, Any]:
        """Read the next answer. Store the descriptors, which arrive before the first answer."""
        while b"\n" not in self._partial_line:
            more, descriptors, *_ = socket.recv_fds(
                self._channel, 1 << 16, _DESCRIPTORS_PER_MESSAGE, socket.MSG_CMSG_CLOEXEC
            )
            self._descriptors += descriptors
            if not more:
                raise ConnectionResetError
            self._partial_line += more
        line, _, self._partial_line = self._partial_line.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _indices(self, tasks: Iterable[Task]) -> list[int]:
        return sorted(self._index[task] for task in tasks)

    def _remove_scratch(self) -> None:
        if self._scratch is not None:
            with suppress(OSError):
                os.rmdir(self._scratch)


def why_not(network: bool, disk: bool) -> str | None:
    """Return a clause that explains why this machine does not support these features, or None. Takes 0.1 s."""
    argv = _argv("check", *(["network"] if network else []), *(["disk"] if disk else []))
    try:
        checked = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=CHECK_TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"a trial did not end within {CHECK_TIMEOUT:g} s"
    except OSError as error:
        return f"the switch can't be started: {error.strerror}"
    if checked.returncode == 0:
        return checked.stdout.decode(errors="replace") or None
    last = checked.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return "the switch does not start" + "".join(f" ({line})" for line in last)


def _argv(*args: str) -> Sequence[str]:
    # Isolated mode without site packages starts faster, and the switch needs only the standard library.
    return [sys.executable, "-I", "-S", "-c", code_of("clusterkit.network.switch.main"), *args]


def addresses_of(tasks: Sequence[Task]) -> dict[Task, str]:
    """Return the address of each task, which depends on its position in the sorted `tasks`."""
    return {task: f"10.77.{index // 250}.{index % 250 + 1}" for index, task in enumerate(tasks)}


def endpoints_of(tasks: Sequence[Task]) -> dict[Task, str]:
    at = addresses_of(tasks)
    return {task: f"{address}:{PORT}" for task, address in at.items() if task.type is not TaskType.EVALUATOR}

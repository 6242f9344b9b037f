"""The virtual network: an address of its own for each task, and everything that can go wrong between two of them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from clusterkit.network.switch.links import Layer
from clusterkit.network.switch_process import NetworkError, Switch, check
from clusterkit.words.model import Task, TaskType

PORT = 2222  # of every task's server: each has its address to itself
TRIED_WITHIN = 5.0  # seconds; it takes a tenth of one
__all__ = ["Layer", "NetworkError", "NetworkPlan", "Traffic", "VirtualNetwork", "why_not"]


class Traffic(NamedTuple):
    """What the switch has carried from one task to another since the start: nothing of what goes by cable."""

    packets: int
    bytes: int
    dropped_packets: int
    dropped_bytes: int


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """What a virtual network is to have.

    `seed` decides which packets are lost and delayed. Without `network` there is only the `disk`, a directory that can
    be made full. `pcap` is the file that records what crosses. `cables`: pairs of tasks that nothing impairs are
    connected by the kernel, if it can and if there is no `pcap`; the switch carries everything else.
    """

    tasks: Sequence[Task]
    seed: int
    network: bool = True
    pcap: Path | None = None
    disk: Path | None = None
    cables: bool = True


class VirtualNetwork:
    """The namespaces of a run's tasks, joined by a switch.

    `log` is the file for the errors of the switch's process, and `env` is added to its environment; `pidfd` becomes
    readable when it ends. Raises NetworkError with a sentence if the network can't be made.

    Make it in the thread that lives as long as the supervisor, before there is a task.
    """

    def __init__(self, plan: NetworkPlan, log: Path, env: Mapping[str, str]) -> None:
        self._tasks = sorted(plan.tasks)
        self._index = {task: index for index, task in enumerate(self._tasks)}
        on_net, disk = self._tasks if plan.network else [], plan.disk
        self.addresses: Mapping[Task, str] = MappingProxyType(addresses_of(on_net))
        self.endpoints = endpoints_of(on_net)
        self._scratch = None if disk is None else _scratch_in(log.parent)
        request = {
            "names": list(map(str, on_net)),
            "addresses": list(self.addresses.values()),
            "seed": plan.seed,
            "pcap": None if plan.pcap is None else os.path.abspath(plan.pcap),
            "cables": plan.cables,
            "disk": None if disk is None else {"path": os.path.abspath(disk), "scratch": self._scratch},
        }
        try:
            self._switch = Switch(request, log, env)
        except BaseException:
            self._remove_scratch()
            raise
        self.pid, self.pidfd = self._switch.pid, self._switch.pidfd

    def namespaces(self, task: Task) -> tuple[int, ...]:
        """Descriptors of the namespaces that the task joins, in that order; they are closed on exec."""
        shared = len(self._switch.descriptors) - len(self.addresses)
        own = [shared + self._index[task]] if self.addresses else []
        return tuple(self._switch.descriptors[i] for i in (*range(shared), *own))

    def impair(self, number: int, a: Collection[Task], b: Collection[Task], layer: Layer) -> None:
        """Put a layer with this number between every task of `a` and every one of `b`, both ways, at once."""
        self._switch.ask("impair", number=number, a=self._indices(a), b=self._indices(b), **asdict(layer))

    def reset(self, a: Collection[Task], b: Collection[Task]) -> int:
        """End the TCP connections between every task of `a` and every one of `b`; return how many there were."""
        count: int = self._switch.ask("reset", a=self._indices(a), b=self._indices(b))
        return count

    def fill_disk(self, number: int) -> None:
        """From now on the directory has no room, for tasks. What they have open there is as it was."""
        self._switch.ask("fill", number=number)

    def heal(self, number: int) -> None:
        """Take away the layer with that number, or the full disk; nothing where there is none."""
        self._switch.ask("heal", number=number)

    def counts(self) -> Mapping[tuple[Task, Task], Traffic]:
        """What has come to the switch, by source and destination, where something has."""
        told = self._switch.ask("counts")
        return {(self._tasks[a], self._tasks[b]): Traffic(*counts) for (a, b), counts in told}

    def stop(self) -> None:
        """End the switch; once no task is left, all of it is gone."""
        self._switch.stop()
        self._remove_scratch()

    def _indices(self, tasks: Iterable[Task]) -> list[int]:
        return sorted(self._index[task] for task in tasks)

    def _remove_scratch(self) -> None:
        if self._scratch is not None:
            with suppress(OSError):
                os.rmdir(self._scratch)


def addresses_of(tasks: Sequence[Task]) -> dict[Task, str]:
    """The address of each task, by its place among the sorted ones."""
    return {task: f"10.77.{index // 250}.{index % 250 + 1}" for index, task in enumerate(tasks)}


def endpoints_of(tasks: Sequence[Task]) -> dict[Task, str]:
    """Where each of them listens, but for the evaluator."""
    at = addresses_of(tasks)
    return {task: f"{address}:{PORT}" for task, address in at.items() if task.type is not TaskType.EVALUATOR}


def why_not(network: bool, disk: bool) -> str | None:
    """Why this machine can have no such network, or full disk, in a clause; None where it can. Takes 0.1 s."""
    words = [*(["network"] if network else []), *(["disk"] if disk else [])]
    try:
        return check(*words, within=TRIED_WITHIN)
    except subprocess.TimeoutExpired:
        return f"a trial of it did not end within {TRIED_WITHIN:g} s"
    except OSError as error:
        return f"the switch can't be started: {error.strerror}"


def _scratch_in(directory: Path) -> str:
    try:
        return tempfile.mkdtemp(prefix="full-disk-", dir=directory.absolute())
    except OSError as error:
        raise NetworkError(f"{directory} can't be written: {error.strerror}.") from None

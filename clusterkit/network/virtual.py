"""The virtual network as the backend uses it: addresses and namespaces of tasks, impairments, resets, the full disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from clusterkit.network.switch.links import Layer
from clusterkit.network.switch_process import NetworkError, Switch, why_not
from clusterkit.words.model import Task, TaskType

PORT = 2222  # of every task's server, since each task has its own address
__all__ = ["Layer", "NetworkError", "NetworkPlan", "VirtualNetwork", "why_not"]


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The features of a virtual network.

    `seed` decides which packets are lost and delayed. `disk` is a directory that can be filled; with `network` False
    it is the only feature. `pcap` is the file that captures all packets. `cables`: the kernel connects pairs of tasks
    that nothing impairs, if it supports that and there is no `pcap`; the switch carries everything else.
    """

    tasks: Sequence[Task]
    seed: int
    network: bool = True
    pcap: Path | None = None
    disk: Path | None = None
    cables: bool = True


class VirtualNetwork:
    """The namespaces of a run's tasks, connected by a switch.

    The switch process, `pid`, logs its errors to `log` and gets `env` on top of this environment; `pidfd` becomes
    readable when it ends. Raises NetworkError if the network can't be created.

    Create it in a thread that lives as long as the supervisor, before any task starts.
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
        """Return descriptors of the namespaces that the task joins, in that order; they are closed on exec."""
        shared = len(self._switch.descriptors) - len(self.addresses)
        own = [shared + self._index[task]] if self.addresses else []
        return tuple(self._switch.descriptors[i] for i in (*range(shared), *own))

    def impair(self, number: int, a: Collection[Task], b: Collection[Task], layer: Layer) -> None:
        """Add the layer `number` between every task of `a` and every task of `b`, in both directions."""
        self._switch.ask("impair", number=number, a=self._indices(a), b=self._indices(b), **asdict(layer))

    def reset(self, a: Collection[Task], b: Collection[Task]) -> int:
        """Reset the TCP connections between every task of `a` and every task of `b`; return how many there were."""
        count: int = self._switch.ask("reset", a=self._indices(a), b=self._indices(b))
        return count

    def fill_disk(self, number: int) -> None:
        """Make writes to the directory's files fail in tasks; files that are open already are not affected."""
        self._switch.ask("fill", number=number)

    def heal(self, number: int) -> None:
        """Remove the layer or free the full disk that has this number, if any."""
        self._switch.ask("heal", number=number)

    def stop(self) -> None:
        """End the switch; the namespaces vanish with the last task in them."""
        self._switch.stop()
        self._remove_scratch()

    def _indices(self, tasks: Iterable[Task]) -> list[int]:
        return sorted(self._index[task] for task in tasks)

    def _remove_scratch(self) -> None:
        if self._scratch is not None:
            with suppress(OSError):
                os.rmdir(self._scratch)


def addresses_of(tasks: Sequence[Task]) -> dict[Task, str]:
    """Return the address of each task, by its position in `tasks`, which are sorted."""
    return {task: f"10.77.{index // 250}.{index % 250 + 1}" for index, task in enumerate(tasks)}


def endpoints_of(tasks: Sequence[Task]) -> dict[Task, str]:
    """Return the `host:port` on which each task but the evaluator listens."""
    at = addresses_of(tasks)
    return {task: f"{address}:{PORT}" for task, address in at.items() if task.type is not TaskType.EVALUATOR}


def _scratch_in(directory: Path) -> str:
    try:
        return tempfile.mkdtemp(prefix="full-disk-", dir=directory.absolute())
    except OSError as error:
        raise NetworkError(f"{directory} can't be written: {error.strerror}.") from None

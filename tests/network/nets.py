"""Virtual networks for tests, and processes in the namespaces of their tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusterkit.network.virtual import NetworkPlan, VirtualNetwork
from clusterkit.words.model import Task
from tests.guests import Guest, connect

A, B, C = (Task.parse(name) for name in ("chief:0", "worker:0", "ps:0"))


def passed(*guests: Guest) -> tuple[int, int]:
    """The number of packets that the switch has taken from the guests' hosts, and delivered to them."""
    taken = delivered = 0
    for guest in guests:
        lines = guest.does("result = list(open('/proc/self/net/dev'))[2:]")
        devices = {name.strip(): counts.split() for name, _, counts in (line.partition(":") for line in lines)}
        counts = devices.get("tun0", devices["eth0"])
        taken, delivered = taken + int(counts[9]), delivered + int(counts[1])
    return taken, delivered


class Nets:
    """Makes networks, and guests in them; the switches log to `log`."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._networks: list[VirtualNetwork] = []
        self._guests: list[Guest] = []

    def make(self, tasks: tuple[Task, ...] = (A, B, C), seed: int = 7, **more: Any) -> VirtualNetwork:
        """Make a network of these tasks."""
        self._networks.append(VirtualNetwork(NetworkPlan(tasks, seed, **more), self.log, {}))
        return self._networks[-1]

    def enter(self, network: VirtualNetwork, task: Task) -> Guest:
        """Start a process in a task's namespaces."""
        self._guests.append(Guest(network.namespaces(task)))
        return self._guests[-1]

    def pair(self, network: VirtualNetwork) -> tuple[Guest, Guest]:
        """Start a process in A's namespaces and one in B's, with a connection between them."""
        a, b = self.enter(network, A), self.enter(network, B)
        connect(a, b, network.addresses[A])
        return a, b

    def end(self) -> None:
        """End all guests and networks."""
        for guest in self._guests:
            guest.end()
        for network in self._networks:
            network.stop()

"""Cables: veth pairs over which the kernel carries the packets between hosts that nothing impairs.

A host's `eth0` is one end of a cable. The other end is in the hub, a network namespace that forwards packets and is
connected to nothing else. A detour is a host's route to one address over its TUN device, and so through the switch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from clusterkit.network.switch.netlink import Netlink
from clusterkit.network.switch.system import NotPossible, enter, new_network, reason_of

CABLE, TUN = "eth0", "tun0"  # device names inside a host
Pair = tuple[int, int]


class Hub:
    """The namespace in which all cables end. The kernel removes both when this process ends."""

    def __init__(self) -> None:
        """Create and enter the namespace. Raises NotPossible, also if the kernel does not support veth pairs."""
        self._namespace = new_network()
        self._cables = 0
        self._kernel = Netlink()
        try:  # a trial cable that leads nowhere: with a hub, every host has to have a cable
            self._kernel.lay("trial0", "trial1", self._namespace)
            self._kernel.forward(self._kernel.index("trial0"))
        except OSError as error:
            raise NotPossible(f"a veth pair can't be created: {reason_of(error)}") from None

    def connect(self, address: bytes) -> None:
        """Lay a cable to the host whose namespace this process is in, and route its address there. Raises OSError."""
        name, self._cables = f"host{self._cables}", self._cables + 1
        with Netlink() as there:
            there.lay(CABLE, name, self._namespace)
        device = self._kernel.index(name)
        self._kernel.forward(device)
        self._kernel.route(address, device)


class Detours:
    """Switches pairs of hosts, given by index, between their cables and the switch."""

    def __init__(self, namespaces: Sequence[int], addresses: Sequence[bytes]) -> None:
        self._namespaces = namespaces
        self._addresses = addresses

    def make(self, pairs: Iterable[Pair]) -> None:
        """Route all packets between the hosts of each pair through the switch. Raises NotPossible."""
        for host, others in _by_host(pairs).items():
            enter(self._namespaces[host])
            try:
                with Netlink() as kernel:
                    tun = kernel.index(TUN)
                    for other in others:
                        kernel.route(self._addresses[other], tun, self._addresses[host])
            except OSError as error:  # a task with rights in its namespace may have deleted its device
                raise NotPossible(f"a task's packets can't be routed to its TUN device: {reason_of(error)}") from None

    def end(self, pairs: Iterable[Pair]) -> None:
        """Route the packets of these pairs over the cables again."""
        for host, others in _by_host(pairs).items():
            with suppress(NotPossible, OSError):
                enter(self._namespaces[host])
                with Netlink() as kernel:
                    tun = kernel.index(TUN)
                    for other in others:
                        kernel.unroute(self._addresses[other], tun)


def _by_host(pairs: Iterable[Pair]) -> dict[int, list[int]]:
    found = defaultdict[int, list[int]](list)
    for a, b in pairs:
        found[a].append(b)
        found[b].append(a)
    return found

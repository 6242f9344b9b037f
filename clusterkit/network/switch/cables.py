"""Cables: the kernel's own way from host to host, past this process, for pairs of hosts that nothing impairs.

A host's `eth0` is one end of a cable. The other end is in the hub, a network namespace that passes packets on and is
joined to nothing else. A route to a single address is a detour: by the TUN device, and so through the switch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from clusterkit.network.switch.netlink import Netlink
from clusterkit.network.switch.system import NotPossible, enter, new_network, said

CABLE, TUN = "eth0", "tun0"  # as a host names them
Pair = tuple[int, int]


class Hub:
    """Where the cables end. It goes with this process, and with it all of them."""

    def __init__(self) -> None:
        """Go into it. Raises NotPossible, also where the kernel can make no cables."""
        self._namespace = new_network()
        self._cables = 0
        self._kernel = Netlink()
        try:  # with a cable that leads nowhere: as soon as there is a hub, every host has to have one
            self._kernel.lay("trial0", "trial1", self._namespace)
            self._kernel.forward(self._kernel.index("trial0"))
        except OSError as error:
            raise NotPossible(f"a cable can't be made: {said(error)}") from None

    def connect(self, address: bytes) -> None:
        """Lay a cable to the namespace in which this process is, whose address that will be. Raises OSError."""
        name, self._cables = f"host{self._cables}", self._cables + 1
        with Netlink() as there:
            there.lay(CABLE, name, self._namespace)
        device = self._kernel.index(name)
        self._kernel.forward(device)
        self._kernel.route(address, device)


class Detours:
    """Which pairs have one, of hosts that are told by their index."""

    def __init__(self, namespaces: Sequence[int], addresses: Sequence[bytes]) -> None:
        self._namespaces = namespaces
        self._addresses = addresses

    def make(self, pairs: Iterable[Pair]) -> None:
        """From now on all packets between the two of each pair pass the switch. Raises NotPossible."""
        for host, others in _by_host(pairs).items():
            enter(self._namespaces[host])
            try:
                with Netlink() as kernel:
                    tun = kernel.index(TUN)
                    for other in others:
                        kernel.route(self._addresses[other], tun, self._addresses[host])
            except OSError as error:  # a task that has rights in its namespace may have taken its device away
                raise NotPossible(f"a task's packets can't be sent by its TUN device: {said(error)}") from None

    def end(self, pairs: Iterable[Pair]) -> None:
        """They go by the cables again."""
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

"""Manages the impairments and the route of packets from each host to each other host."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from clusterkit.network.switch.devices import Detours, Pair
from clusterkit.network.switch.links import NetworkLink


@dataclass(slots=True, eq=False)
class Direction:
    """The packets from one host to another, and the impairments of these packets."""

    pair: Pair  # source and destination
    address: bytes  # the address of the destination
    device: int  # the device of the destination
    link: NetworkLink
    flows_to_reset: set[bytes]  # the flows that are being reset; both directions of a pair share this set
    wakes_at: float = math.inf  # monotonic seconds; when the next waiting packet is due

    @property
    def is_clear(self) -> bool:
        return self.link.is_clear and not self.flows_to_reset


class Directions:
    """All directions between hosts.

    If `detours` is set, packets between two hosts travel over cables while neither direction is impaired.
    """

    detours: Detours | None = None

    def __init__(
        self, devices: Sequence[int], names: Sequence[str], addresses: Sequence[str], seed: int, *, captured: bool
    ) -> None:
        self.addresses = [socket.inet_aton(address) for address in addresses]
        self.devices = devices
        self._names = names
        self._seed = seed
        self._captured = captured
        self._indices = {address: index for index, address in enumerate(self.addresses)}
        # Directions are created on demand, since most pairs of hosts never exchange a packet.
        self._directions: dict[Pair, Direction] = {}
        self._detoured: set[Pair] = set()
        # Both lists contain a dict for each source host. The keys are destination addresses. The values are directions
        # in `_all`, and in `clear` the devices to which packets are written if they need no inspection.
        self._all: list[dict[bytes, Direction]] = [{} for _ in devices]
        self.clear: list[dict[bytes, int]] = [{} for _ in devices]

    def __iter__(self) -> Iterator[Direction]:
        return iter(self._directions.values())

    def both_directions(self, pairs: Iterable[Pair]) -> list[Direction]:
        both = {direction for a, b in pairs for direction in ((a, b), (b, a)) if a != b}
        return [self.of(*pair) for pair in sorted(both)]

    def of(self, a: int, b: int) -> Direction:
        if (direction := self._directions.get((a, b))) is None:
            link = NetworkLink(self._seed, self._names[a], self._names[b])
            back = self._directions.get((b, a))
            doomed = set() if back is None else back.flows_to_reset
            direction = self._directions[a, b] = Direction((a, b), self.addresses[b], self.devices[b], link, doomed)
            self._all[a][direction.address] = direction
        return direction

    def direction_of(self, source: int, packet: bytes) -> Direction | None:
        """Return the direction of an IPv4 packet from `source` to another host; None for any other packet."""
        address = packet[16:20]
        if (direction := self._all[source].get(address)) is None:
            destination = self._indices.get(address, source)
            direction = None if destination == source else self.of(source, destination)
        return direction if packet[0] >> 4 == 4 else None

    def device_of(self, address: bytes) -> int:
        return self.devices[self._indices[address]]

    def update_routes(self, directions: Iterable[Direction]) -> None:
        """Update whether packets of these directions are inspected, and whether they use cables. Raises NotPossible."""
        begin, end = set[Pair](), set[Pair]()
        for direction in directions:
            source, destination = direction.pair
            if direction.is_clear and not self._captured:
                self.clear[source][direction.address] = direction.device
            else:
                self.clear[source].pop(direction.address, None)
            pair = min(direction.pair, direction.pair[::-1])
            if not (direction.is_clear and self.of(destination, source).is_clear):
                begin.add(pair)
            elif pair in self._detoured:
                end.add(pair)
        if self.detours is not None:
            self._detoured |= (begin := begin - self._detoured)
            self._detoured -= end
            self.detours.end(end)
            self.detours.make(begin)

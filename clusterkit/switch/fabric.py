"""The fabric: reads what each host sends, and writes it to the host that it is for."""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from clusterkit.switch.capture import Capture
from clusterkit.switch.flows import DOOMED_FOR, Flows
from clusterkit.switch.links import Layer, Link
from clusterkit.switch.packets import ACK, FIN, LONGEST, PLAIN_HEADER, RST, SYN, TCP, segment_of

BURST = 32  # packets of one host before the others have their turn
_FLAGS = FIN | SYN | RST | ACK
Pair = tuple[int, int]


@dataclass(slots=True)
class Way:
    """One direction of a pair: where it begins and ends, what impairs it, and what has passed."""

    source: int
    address: bytes  # of its end
    device: int  # there
    link: Link
    # Packets and bytes that were delivered, then those that were not.
    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    wakes: float = math.inf  # when something that waits has to be delivered
    doomed_until: float = 0.0  # until then connections that were reset are looked for

    def drop(self, packet: bytes) -> None:
        """Count a packet that is not delivered."""
        self.counts[2] += 1
        self.counts[3] += len(packet)


class Fabric:
    """Hosts, which are told by their index, and the ways between them.

    A packet on a way that nothing impairs costs a read, a look into a dictionary, and a write.
    """

    def __init__(
        self, devices: Sequence[int], names: Sequence[str], addresses: Sequence[str], seed: int, capture: Capture | None
    ) -> None:
        self._addresses = [socket.inet_aton(address) for address in addresses]
        self._indices = {address: index for index, address in enumerate(self._addresses)}
        self._names = names
        self._seed = seed
        self.devices = devices
        self._capture = capture
        self._flows = Flows()
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Way]] = []
        self._ids = itertools.count()
        self._over = False
        # Made when they are needed: there are far more pairs than pairs that speak with each other.
        self._ways: dict[Pair, Way] = {}
        # By source: all ways by the destination's address, and those on which packets go without a closer look.
        self._all: list[dict[bytes, Way]] = [{} for _ in devices]
        self._clear: list[dict[bytes, Way]] = [{} for _ in devices]
        for index, device in enumerate(devices):
            self.listen(device, functools.partial(self._drain, index))

    def listen(self, descriptor: int, handler: Callable[[], None]) -> None:
        """Call a function whenever the descriptor can be read."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def run(self) -> None:
        """Carry packets, and call handlers, until `stop`."""
        while not self._over:
            for descriptor, _ in self._epoll.poll(self._until_next()):
                if (handler := self._handlers.get(descriptor)) is not None:
                    handler()
            if self._timers:
                self._look_at_due(time.monotonic())
            if self._capture is not None and self._capture.wait(time.monotonic()) == 0:
                self._capture.flush()

    def stop(self) -> None:
        """`run` returns; what was captured is in its file."""
        self._over = True
        if self._capture is not None:
            self._capture.flush()

    def impair(self, number: int, pairs: Iterable[Pair], layer: Layer) -> None:
        """Put a layer on both ways of each pair."""
        now = time.monotonic()
        for way in self._both_ways(pairs):
            way.link.impair(number, layer, now)
            self._settle(way, now)

    def heal(self, number: int) -> None:
        """Take that layer from wherever it is."""
        now = time.monotonic()
        for way in self._ways.values():
            way.link.heal(number, now)
            self._settle(way, now)

    def reset(self, pairs: Iterable[Pair]) -> int:
        """End every connection between the hosts of each pair; return how many there were."""
        now, count = time.monotonic(), 0
        for a, b in {(min(pair), max(pair)) for pair in pairs}:
            packets, connections = self._flows.reset(self._addresses[a], self._addresses[b], now)
            count += connections
            for way in self._both_ways([(a, b)]) if connections else []:
                way.doomed_until = now + DOOMED_FOR
                self._sort(way, now)
            for packet in packets:
                self._inject(packet)
        return count

    def counts(self) -> dict[Pair, list[int]]:
        """Packets and bytes delivered, then packets and bytes dropped, by source and destination, where any were."""
        return {pair: way.counts for pair, way in self._ways.items() if any(way.counts)}

    def _both_ways(self, pairs: Iterable[Pair]) -> list[Way]:
        both = {way for a, b in pairs for way in ((a, b), (b, a)) if a != b}
        return [self._way(*pair) for pair in sorted(both)]

    def _way(self, a: int, b: int) -> Way:
        if (way := self._ways.get((a, b))) is None:
            link = Link(self._seed, self._names[a], self._names[b])
            way = self._ways[a, b] = Way(a, self._addresses[b], self.devices[b], link)
            self._all[a][way.address] = way
        return way

    def _way_of(self, source: int, packet: bytes) -> Way | None:
        """Where a packet goes; None where it is not for another host."""
        address = packet[16:20]
        if (way := self._all[source].get(address)) is None:
            destination = self._indices.get(address, source)
            way = None if destination == source else self._way(source, destination)
        return way if packet[0] >> 4 == 4 else None

    def _drain(self, source: int) -> None:
        """Take a bounded number of packets that a host has sent."""
        device, clear, acks = self.devices[source], self._clear[source], self._flows.acks
        try:
            for _ in range(BURST):
                packet = os.read(device, LONGEST)
                way = clear.get(packet[16:20])
                if way is None or packet[0] != PLAIN_HEADER or len(packet) < 40:
                    self._look_at(source, packet)
                    continue
                if packet[9] == TCP:
                    if packet[33] & _FLAGS != ACK:
                        self._look_at(source, packet)
                        continue
                    if (flow := packet[12:24]) in acks:
                        acks[flow] = packet[28:32]
                try:
                    os.write(way.device, packet)
                except OSError:
                    way.drop(packet)
                    continue
                counts = way.counts
                counts[0] += 1
                counts[1] += len(packet)
        except BlockingIOError:
            return
        except OSError:  # a task that has rights in its namespace may have taken its device away
            self._epoll.unregister(device)
            del self._handlers[device]

    def _look_at(self, source: int, packet: bytes) -> None:
        """Take a packet that may be impaired, or that begins or ends a connection, or that goes nowhere."""
        if (way := self._way_of(source, packet)) is None:
            return
        now = time.monotonic()
        if (segment := segment_of(packet)) is not None:
            if way.doomed_until > now and (answer := self._flows.answer(segment, now)) is not None:
                way.drop(packet)
                for forged in answer:
                    self._inject(forged)
                return
            self._flows.note(segment)
        if not way.link.take(packet, now):
            way.drop(packet)
        self._settle(way, now)

    def _settle(self, way: Way, now: float) -> None:
        """Deliver what is due on a way, and see to it that the rest is."""
        for packet in way.link.due(now):
            if self._write(way.device, packet):
                way.counts[0] += 1
                way.counts[1] += len(packet)
            else:
                way.drop(packet)
        following = way.link.next
        if following is not None and following < way.wakes:
            way.wakes = following
            heapq.heappush(self._timers, (following, next(self._ids), way))
        self._sort(way, now)

    def _sort(self, way: Way, now: float) -> None:
        if way.link.is_clear and way.doomed_until <= now and self._capture is None:
            self._clear[way.source][way.address] = way
        else:
            self._clear[way.source].pop(way.address, None)

    def _look_at_due(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, _, way = heapq.heappop(self._timers)
            if at == way.wakes:  # else something that waited was put forward, and has a timer of its own
                way.wakes = math.inf
                self._settle(way, now)

    def _until_next(self) -> float | None:
        now = time.monotonic()
        waits = [] if self._capture is None else [self._capture.wait(now)]
        waits += [max(0.0, self._timers[0][0] - now)] if self._timers else []
        return min((wait for wait in waits if wait is not None), default=None)

    def _inject(self, packet: bytes) -> None:
        """Deliver a packet that no host has sent."""
        self._write(self.devices[self._indices[packet[16:20]]], packet)

    def _write(self, device: int, packet: bytes) -> bool:
        try:
            os.write(device, packet)
        except OSError:
            return False
        if self._capture is not None:
            self._capture.add(packet)
        return True

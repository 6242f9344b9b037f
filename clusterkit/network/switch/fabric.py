"""The fabric: reads what each host sends, and writes it to the host that it is for."""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import os
import select
import time
from collections.abc import Callable, Iterable, Sequence

from clusterkit.network.switch.cables import Pair
from clusterkit.network.switch.capture import Capture
from clusterkit.network.switch.flows import answer
from clusterkit.network.switch.links import Layer
from clusterkit.network.switch.packets import LONGEST, segment_of
from clusterkit.network.switch.resets import Resets
from clusterkit.network.switch.ways import Way, Ways

BURST = 32  # packets of one host before the others have their turn


class Fabric:
    """Carries what comes to it; a packet on a way that is clear costs a read, a look into a dictionary, and a write."""

    def __init__(self, namespaces: Sequence[int], ways: Ways, capture: Capture | None) -> None:
        self._ways = ways
        self.devices = ways.devices
        self._capture = capture
        self._resets = Resets(namespaces, ways, self._inject, self._later)
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Callable[[float], None]]] = []
        self._ids = itertools.count()
        self._over = False
        for index, device in enumerate(ways.devices):
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
        """Put a layer on both ways of each pair. Raises NotPossible."""
        now, ways = time.monotonic(), self._ways.there_and_back(pairs)
        for way in ways:
            way.link.impair(number, layer, now)
            self._deliver(way, now)
        self._ways.arrange(ways)

    def heal(self, number: int) -> None:
        """Take that layer from wherever it is."""
        now, ways = time.monotonic(), list(self._ways)
        for way in ways:
            way.link.heal(number, now)
            self._deliver(way, now)
        self._ways.arrange(ways)

    def reset(self, pairs: Iterable[Pair]) -> int:
        """End every connection between the hosts of each pair; return how many there were. Raises NotPossible."""
        return self._resets.begin(pairs)

    def counts(self) -> dict[Pair, list[int]]:
        """Packets and bytes delivered, then packets and bytes dropped, by source and destination, where any were."""
        return {way.pair: way.counts for way in self._ways if any(way.counts)}

    def _drain(self, source: int) -> None:
        """Take a bounded number of packets that a host has sent."""
        device, clear = self.devices[source], self._ways.clear[source]
        try:
            for _ in range(BURST):
                packet = os.read(device, LONGEST)
                way = clear.get(packet[16:20])
                if way is None or packet[0] >> 4 != 4:
                    self._look_at(source, packet)
                    continue
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
        """Take a packet that may be impaired, or is of a connection that is reset, or goes nowhere."""
        if (way := self._ways.way_of(source, packet)) is None:
            return
        if way.doomed and (segment := segment_of(packet)) is not None:
            instead = answer(segment, way.doomed)
            if instead is not None:
                way.drop(packet)
                for forged in instead:
                    self._inject(forged)
                return
        now = time.monotonic()
        if not way.link.take(packet, now):
            way.drop(packet)
        self._settle(way, now)

    def _settle(self, way: Way, now: float) -> None:
        """Deliver what is due on a way, which may be clear then."""
        self._deliver(way, now)
        if way.is_clear:
            self._ways.arrange([way])

    def _deliver(self, way: Way, now: float) -> None:
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
            self._later(following, functools.partial(self._wake, way, following))

    def _wake(self, way: Way, at: float, now: float) -> None:
        if at == way.wakes:  # else something that waited was put forward, and has a timer of its own
            way.wakes = math.inf
            self._settle(way, now)

    def _later(self, at: float, function: Callable[[float], None]) -> None:
        heapq.heappush(self._timers, (at, next(self._ids), function))

    def _look_at_due(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2](now)

    def _until_next(self) -> float | None:
        now = time.monotonic()
        waits = [] if self._capture is None else [self._capture.wait(now)]
        waits += [max(0.0, self._timers[0][0] - now)] if self._timers else []
        return min((wait for wait in waits if wait is not None), default=None)

    def _inject(self, packet: bytes) -> None:
        """Deliver a packet that no host has sent."""
        self._write(self._ways.device_of(packet[16:20]), packet)

    def _write(self, device: int, packet: bytes) -> bool:
        try:
            os.write(device, packet)
        except OSError:
            return False
        if self._capture is not None:
            self._capture.add(packet)
        return True

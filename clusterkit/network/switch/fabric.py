"""The event loop of the switch, which reads packets from each host and writes them to their destinations."""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import os
import select
import time
from collections.abc import Callable, Iterable, Sequence

from clusterkit.network.switch.capture import Capture
from clusterkit.network.switch.devices import Pair
from clusterkit.network.switch.directions import Direction, Directions
from clusterkit.network.switch.links import Layer
from clusterkit.network.switch.resets import LONGEST, Resets, replies, segment_of

LONGEST_WAIT = 86400.0  # seconds; the maximum timeout; epoll allows at most 24 days
BURST = 32  # the maximum number of packets to read from a host before the next host gets a turn


class PacketLoop:
    """Forwards packets. An unimpaired packet costs only a read, a dictionary lookup and a write."""

    def __init__(self, namespaces: Sequence[int], directions: Directions, capture: Capture | None) -> None:
        self._directions = directions
        self.devices = directions.devices
        self._capture = capture
        self.resets = Resets(namespaces, directions, self._inject, self._call_at)
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Callable[[float], None]]] = []
        self._ids = itertools.count()
        self._stopped = False
        for index, device in enumerate(directions.devices):
            self.listen(device, functools.partial(self._drain, index))

    def listen(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def run(self) -> None:
        while not self._stopped:
            for descriptor, _ in self._epoll.poll(self._timeout()):
                if (handler := self._handlers.get(descriptor)) is not None:
                    handler()
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2](now)
            if self._capture is not None and self._capture.seconds_to_flush(time.monotonic()) == 0:
                self._capture.flush()

    def stop(self) -> None:
        """Flush the capture, and make `run` return."""
        self._stopped = True
        self.flush()

    def flush(self) -> None:
        if self._capture is not None:
            self._capture.flush()

    def impair(self, number: int, pairs: Iterable[Pair], layer: Layer) -> None:
        """Add a layer with this number between the hosts of each pair, in both directions. Raises NotPossible."""
        now, directions = time.monotonic(), self._directions.both_directions(pairs)
        for direction in directions:
            direction.link.impair(number, layer, now)
            self._deliver(direction, now)
        self._directions.update_routes(directions)

    def heal(self, number: int) -> None:
        now, directions = time.monotonic(), list(self._directions)
        for direction in directions:
            direction.link.heal(number, now)
            self._deliver(direction, now)
        self._directions.update_routes(directions)

    def _drain(self, source: int) -> None:
        device, clear = self.devices[source], self._directions.clear[source]
        try:
            for _ in range(BURST):
                packet = os.read(device, LONGEST)
                target = clear.get(packet[16:20])
                if target is None or packet[0] >> 4 != 4:
                    self._inspect(source, packet)
                else:
                    self._write(target, packet)
        except BlockingIOError:
            return
        except OSError:  # a privileged task may have deleted its TUN device
            self._epoll.unregister(device)
            del self._handlers[device]

    def _inspect(self, source: int, packet: bytes) -> None:
        """Reset, drop, delay or forward a packet, depending on its direction. Ignore packets to unknown hosts."""
        if (direction := self._directions.direction_of(source, packet)) is None:
            return
        if direction.flows_to_reset and (segment := segment_of(packet)) is not None:
            resets = replies(segment, direction.flows_to_reset)
            if resets is not None:
                for reset in resets:
                    self._inject(reset)
                return
        now = time.monotonic()
        direction.link.accept(packet, now)
        self._deliver_and_reroute(direction, now)

    def _deliver_and_reroute(self, direction: Direction, now: float) -> None:
        self._deliver(direction, now)
        if direction.is_clear:
            self._directions.update_routes([direction])

    def _deliver(self, direction: Direction, now: float) -> None:
        for packet in direction.link.pop_due(now):
            self._write(direction.device, packet)
        following = direction.link.next_due
        if following is not None and following < direction.wakes_at:
            direction.wakes_at = following
            self._call_at(following, functools.partial(self._wake, direction, following))

    def _wake(self, direction: Direction, at: float, now: float) -> None:
        if at == direction.wakes_at:  # otherwise, another timer has replaced this one
            direction.wakes_at = math.inf
            self._deliver_and_reroute(direction, now)

    def _call_at(self, at: float, function: Callable[[float], None]) -> None:
        heapq.heappush(self._timers, (at, next(self._ids), function))

    def _timeout(self) -> float:
        now = time.monotonic()
        waits = [] if self._capture is None else [self._capture.seconds_to_flush(now)]
        waits += [max(0.0, self._timers[0][0] - now)] if self._timers else []
        return min([LONGEST_WAIT, *(wait for wait in waits if wait is not None)])

    def _inject(self, packet: bytes) -> None:
        self._write(self._directions.device_of(packet[16:20]), packet)

    def _write(self, device: int, packet: bytes) -> None:
        try:
            os.write(device, packet)
        except OSError:  # the packet is lost
            return
        if self._capture is not None:
            self._capture.add(packet)

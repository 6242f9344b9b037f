"""Decides, given the impairments, whether and when packets from one host to another are delivered."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

BURST = 1 << 16  # bytes; after an idle time, this amount of data passes a rate limit without delay: at least one packet
BACKLOG, BACKLOG_SECONDS = 4 * BURST, 0.05  # bytes, seconds; a rate limit holds back at most the larger amount of data
MOST_WAITING = 64 << 20  # bytes; the maximum size of the packets that wait on one link


@dataclass(frozen=True, slots=True)
class Layer:
    """The effect of one fault on the packets between two tasks."""

    cut: bool = False  # True if all packets are lost
    delay: float = 0.0  # seconds, in each direction
    jitter: float = 0.0  # seconds; the maximum deviation from the delay
    loss: float = 0.0  # the probability that a packet is lost
    rate: float = 0.0  # bytes per second; 0 for no limit


class NetworkLink:
    """The layers and the waiting packets of one direction between two hosts. `now` is in monotonic seconds."""

    def __init__(self, seed: int, source: str, destination: str) -> None:
        self._seed = seed
        self._name = f"{source}>{destination}"
        self._layers: dict[int, tuple[Layer, random.Random]] = {}
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0  # the size of the waiting packets
        self._last_due = 0.0  # when the packet that was accepted last is due
        self._free_at = 0.0  # when all accepted packets will have passed the rate limit
        self._rate = self._delay = 0.0

    @property
    def is_clear(self) -> bool:
        return not self._layers and not self._waiting

    @property
    def next_due(self) -> float | None:
        return self._waiting[0][0] if self._waiting else None

    def impair(self, number: int, layer: Layer, now: float) -> None:
        """Add a layer, or replace the layer with the same number. The layer's random generator is seeded again."""
        self._layers[number] = (layer, random.Random(f"{self._seed}/{number}/{self._name}"))
        self._reschedule(now)

    def heal(self, number: int, now: float) -> None:
        if self._layers.pop(number, None) is not None:
            self._reschedule(now)

    def accept(self, packet: bytes, now: float) -> bool:
        """Schedule the delivery of a packet, which may be due at once; return False if the packet is lost."""
        lost, delay = False, self._delay
        for layer, chance in self._layers.values():
            lost |= layer.cut
            if layer.loss > 0 or layer.jitter > 0:
                # Each layer draws exactly one random number per packet, so that a replay loses the same packets.
                drawn = chance.random()
                lost |= drawn < layer.loss
                delay += layer.jitter * (2 * (drawn - layer.loss) / (1 - layer.loss) - 1) if not lost else 0.0
        size = len(packet)
        waits = (self._free_at - now) * self._rate + size  # the number of bytes that the rate limit would hold back
        if lost or self._bytes + size > MOST_WAITING or waits > max(BACKLOG, self._rate * BACKLOG_SECONDS):
            return False
        self._enqueue(packet, max(now, self._time_past_rate(size, now) + delay))
        return True

    def pop_due(self, now: float) -> Iterator[bytes]:
        while self._waiting and self._waiting[0][0] <= now:
            packet = self._waiting.popleft()[1]
            self._bytes -= len(packet)
            yield packet

    def _enqueue(self, packet: bytes, due: float) -> None:
        self._last_due = max(due, self._last_due)  # packets must not overtake each other
        self._waiting.append((self._last_due, packet))
        self._bytes += len(packet)

    def _time_past_rate(self, size: int, now: float) -> float:
        if not self._rate:
            return now
        self._free_at = max(self._free_at, now - BURST / self._rate) + size / self._rate
        return max(now, self._free_at)

    def _reschedule(self, now: float) -> None:
        """Apply the current layers to the waiting packets. No packet is delayed longer than if it had just arrived."""
        layers = [layer for layer, _ in self._layers.values()]
        self._delay = sum(layer.delay for layer in layers)
        self._rate = min((layer.rate for layer in layers if layer.rate), default=0.0)
        waiting, self._waiting = self._waiting, deque()
        self._bytes, self._last_due, self._free_at = 0, now, now
        for due, packet in waiting:
            self._enqueue(packet, min(due, self._time_past_rate(len(packet), now) + self._delay))

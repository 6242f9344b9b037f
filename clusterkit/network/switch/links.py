"""Links: what becomes of a packet between two tasks, one direction of it, with everything that impairs it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

BURST = 1 << 16  # bytes that pass a limited link at once after it was idle: one packet of any size
BACKLOG, BACKLOG_SECONDS = 4 * BURST, 0.05  # what may wait before a limited link, whichever is more
MOST_WAITING = 64 << 20  # bytes that may wait in all


@dataclass(frozen=True, slots=True)
class Layer:
    """What one fault does to the packets between two tasks.

    `delay` is in seconds one way, and `jitter` is up to how much it varies, more or less; `loss` is the probability
    that a packet is lost; `rate` is in bytes a second, 0 for no limit.
    """

    cut: bool = False
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    rate: float = 0.0

    @property
    def is_random(self) -> bool:
        """Whether it takes a random number a packet."""
        return self.loss > 0 or self.jitter > 0


class Link:
    """One direction of a pair: layers by number, and the packets that wait, in their order.

    `now` is in seconds, of any clock that only goes forward.
    """

    def __init__(self, seed: int, source: str, destination: str) -> None:
        self._seed = seed
        self._name = f"{source}>{destination}"
        self._layers: dict[int, tuple[Layer, random.Random]] = {}
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0  # that wait
        self._last = 0.0  # when the newest packet leaves
        self._free = 0.0  # when all that was accepted has passed the rate
        self._rate = self._delay = 0.0

    @property
    def is_clear(self) -> bool:
        """Whether packets pass as if there were no link: nothing impairs it, and nothing waits."""
        return not self._layers and not self._waiting

    @property
    def next(self) -> float | None:
        """When the next packet leaves; None where none waits."""
        return self._waiting[0][0] if self._waiting else None

    def impair(self, number: int, layer: Layer, now: float) -> None:
        """Add a layer, or replace the one with that number; it begins with its first random number."""
        self._layers[number] = (layer, random.Random(f"{self._seed}/{number}/{self._name}"))
        self._change(now)

    def heal(self, number: int, now: float) -> None:
        """Take a layer away, where it is there."""
        if self._layers.pop(number, None) is not None:
            self._change(now)

    def take(self, packet: bytes, now: float) -> bool:
        """Accept a packet, which may be due at once; False where it is lost."""
        lost, delay = False, self._delay
        for layer, chance in self._layers.values():
            lost |= layer.cut
            if layer.is_random:
                # Each layer draws one number for each packet, whatever the others do: so a replay loses the same.
                drawn = chance.random()
                lost |= drawn < layer.loss
                delay += layer.jitter * (2 * (drawn - layer.loss) / (1 - layer.loss) - 1) if not lost else 0.0
        size = len(packet)
        if lost or self._bytes + size > MOST_WAITING or self._is_full(size, now):
            return False
        self._wait(packet, max(now, self._passed(size, now) + delay))
        return True

    def due(self, now: float) -> Iterator[bytes]:
        """The packets whose time has come, which no longer wait."""
        while self._waiting and self._waiting[0][0] <= now:
            packet = self._waiting.popleft()[1]
            self._bytes -= len(packet)
            yield packet

    def _wait(self, packet: bytes, leaves: float) -> None:
        self._last = max(leaves, self._last)  # never before the one before it
        self._waiting.append((self._last, packet))
        self._bytes += len(packet)

    def _is_full(self, size: int, now: float) -> bool:
        if not self._rate:
            return False
        return (self._free - now) * self._rate + size > max(BACKLOG, self._rate * BACKLOG_SECONDS)

    def _passed(self, size: int, now: float) -> float:
        """When a packet of that size is through the rate."""
        if not self._rate:
            return now
        self._free = max(self._free, now - BURST / self._rate) + size / self._rate
        return max(now, self._free)

    def _change(self, now: float) -> None:
        """What waits leaves no later than if it came now: nothing has to stand behind what was healed."""
        layers = [layer for layer, _ in self._layers.values()]
        self._delay = sum(layer.delay for layer in layers)
        self._rate = min((layer.rate for layer in layers if layer.rate), default=0.0)
        waiting, self._waiting = self._waiting, deque()
        self._bytes, self._last, self._free = 0, now, now
        for leaves, packet in waiting:
            self._wait(packet, min(leaves, self._passed(len(packet), now) + self._delay))

"""A stretch of a run between two new steps: what went on in it, piece by piece, and to which part that belongs."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping

MOST = 64  # pieces; of more, the older half is only summed up
JITTER = 500_000  # microseconds by which a step may be late without a reason
LATE = 2  # usual times of a step, which a step may take besides


class Kind(enum.Enum):
    """What a run does at a moment, as its events say."""

    WAITING = "waiting for the first process"
    STARTING = "the program runs"
    FIRST_STEP = "the first step has begun"
    RUNNING = "training"
    SAVING = "a checkpoint"
    EVALUATING = "another phase without steps"
    PAUSED = "a task is paused"
    CUT = "the network is partitioned"
    AWAY = "a task restarts without which training may go on"
    FAILED = "a task failed, and what follows is not decided yet"
    RESTARTING = "a restart, until the first new step"
    AGAIN = "the same, where every task runs again"
    ENDING = "the end"
    UNSEEN = "the program ran, and never reported a step"


PART = {  # to which each belongs if nothing else is known
    Kind.WAITING: "startup",
    Kind.STARTING: "startup",
    Kind.FIRST_STEP: "compilation",
    Kind.RUNNING: "training",
    Kind.SAVING: "checkpointing",
    Kind.EVALUATING: "evaluating",
    Kind.PAUSED: "stopped",
    Kind.CUT: "stalled",
    Kind.AWAY: "recovering",
    Kind.FAILED: "recovering",
    Kind.RESTARTING: "recovering",
    Kind.AGAIN: "recovering",
    Kind.ENDING: "ending",
    Kind.UNSEEN: "unseen",
}
IDLE = (Kind.AWAY, Kind.CUT, Kind.PAUSED)  # training may go on nevertheless
DOWN = frozenset({Kind.FAILED, Kind.RESTARTING, Kind.AGAIN, Kind.ENDING})
BEFORE = frozenset({Kind.WAITING, Kind.STARTING, Kind.FIRST_STEP, Kind.UNSEEN})
Times = Counter[Kind]  # microseconds


class Stretch:
    """The pieces since the last new step. Times are microseconds since the run began, and never decrease."""

    def __init__(self, begin: int, kind: Kind) -> None:
        self.restart(begin, kind)

    def restart(self, begin: int, kind: Kind) -> None:
        """Forget everything before that."""
        self.begin = begin
        self._pieces = [(begin, kind)]
        self._summed = (Times(), Times())  # of older pieces: while training could go on, and after that

    @property
    def kind(self) -> Kind:
        """What goes on."""
        return self._pieces[-1][1]

    @property
    def plain(self) -> bool:
        """Whether there was nothing but one thing."""
        return len(self._pieces) == 1 and not any(self._summed)

    def become(self, now: int, kind: Kind) -> None:
        """From now on it is that."""
        if kind is self.kind:
            return
        if self._pieces[-1][0] == now:
            self._pieces.pop()
        if not self._pieces or self._pieces[-1][1] is not kind:
            self._pieces.append((now, kind))
        if len(self._pieces) > MOST:
            self._sum_up(MOST // 2)

    def rename(self, rename: Callable[[Kind], Kind], since: int = 0) -> None:
        """What went on since then was something else."""
        self._split(since)
        self._pieces = [(at, rename(kind) if at >= since else kind) for at, kind in self._pieces]
        if since <= self.begin:
            was = self._summed[0] + self._summed[1]
            self._summed = (Times(), Times())
            for kind, time in was.items():
                self._summed[rename(kind) in DOWN][rename(kind)] += time

    def times(self, now: int) -> tuple[Times, Times]:
        """How long each went on: while training could go on, and from the first failure, or the end, on."""
        before, after = Times(self._summed[0]), Times(self._summed[1])
        down = bool(after)
        for (at, kind), end in zip(self._pieces, [at for at, _ in self._pieces[1:]] + [now], strict=True):
            down = down or kind in DOWN
            (after if down else before)[kind] += end - at
        return before, after

    def _sum_up(self, count: int) -> None:
        """Keep only the sums of the oldest pieces."""
        rest, self._pieces = self._pieces[count:], self._pieces[:count]
        self._summed = self.times(rest[0][0])
        self._pieces = rest

    def _split(self, at: int) -> None:
        for place, (begin, kind) in enumerate(self._pieces):
            end = self._pieces[place + 1][0] if place + 1 < len(self._pieces) else at + 1
            if begin < at < end:
                self._pieces.insert(place + 1, (at, kind))
                return


def parts_of(times: tuple[Times, Times], usual: int, stalled: bool) -> Counter[str]:
    """The parts that a stretch belongs to. `usual`: how long a step usually takes, as far as it was reported.

    Training may go on while a task is paused, away or cut off; then steps come about as often as usual. What is missing
    of a usual step's time is taken to be training.
    """
    before, after = times
    parts = Counter[str]()
    for kind, time in (before + after).items():
        parts[PART[kind]] += time
    if BEFORE & before.keys():
        return parts
    idle = sum(before[kind] for kind in IDLE)
    if not stalled and idle + before[Kind.RUNNING] <= LATE * usual + JITTER:
        _move(parts, {PART[kind]: before[kind] for kind in IDLE}, "training", idle)
    elif stalled:
        _move(parts, {"training": before[Kind.RUNNING]}, "stalled", before[Kind.RUNNING] - usual)
    else:
        _move(parts, {PART[kind]: before[kind] for kind in IDLE}, "training", usual - before[Kind.RUNNING])
    return parts


def _move(parts: Counter[str], sources: Mapping[str, int], target: str, most: int) -> None:
    """Move at most that much, from the sources in turn."""
    for source, time in sources.items():
        moved = max(0, min(time, most))
        most -= moved
        parts[source] -= moved
        parts[target] += moved

"""Patience: how long the guardian waits for a supervisor that was asked to end, and what it does then."""

from __future__ import annotations

import enum
from dataclasses import dataclass

REACTS_WITHIN = 5.0  # seconds for a supervisor to write to its journal that it was asked to end
DYING = 10.0  # seconds more for one that does: tasks may take that long to die of SIGKILL
SIGINT = 2


class Step(enum.Enum):
    """What the guardian does now."""

    WAIT = enum.auto()
    TELL = enum.auto()  # send SIGTERM to the tasks, since the supervisor does not
    KILL = enum.auto()


@dataclass(slots=True)
class Patience:
    """Decides by whether the run's journal grows. Times in monotonic seconds.

    A supervisor that does not react gets REACTS_WITHIN, then the tasks get SIGTERM and have `grace` seconds; it is
    killed after that. The same if it reacts and is stuck later, DYING seconds later. A second Ctrl-C takes the grace
    period out of that. While the result is there and the supervisor only finishes, nothing but that ends it.
    """

    grace: float
    asked: float
    size: int  # of the journal, just before the supervisor was asked, and at each look
    hurried: float | None = None
    moved: float | None = None  # when the journal grew last
    told: bool = False

    def heard(self, number: int, now: float) -> None:
        """One more signal was passed on to the supervisor."""
        if number == SIGINT and self.hurried is None:
            self.hurried = now

    def look(self, size: int, has_result: bool, now: float) -> Step:
        """What is to be done now that the journal has that `size`."""
        if size != self.size:
            self.size, self.moved = size, now
        idle = now - max(self.asked, self.hurried or 0.0, self.moved or 0.0)
        more = 0.0 if self.moved is None else DYING
        if self.hurried is not None:
            return Step.KILL if idle >= REACTS_WITHIN + more else Step.WAIT
        if has_result:
            return Step.WAIT
        if idle >= self.grace + REACTS_WITHIN + more:
            return Step.KILL
        if self.moved is None and idle >= REACTS_WITHIN and not self.told:
            self.told = True
            return Step.TELL
        return Step.WAIT

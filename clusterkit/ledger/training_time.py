"""Training time: what the steps of a run took that count so far, and what that says of the first one."""

from __future__ import annotations

from collections import deque

from clusterkit.ledger.curve import Curve

USUAL_OF = 31  # steps whose times make the usual one
ENOUGH = 8  # of them, to tell what the first step took beyond that


class TrainingTime:
    """All times in microseconds. A step is what lies between two reports; a program may report every hundredth."""

    def __init__(self) -> None:
        self.made = 0  # by the steps that count so far
        self.first = 0  # what the first step took, until it is divided into compilation and training
        self._usual = deque[int](maxlen=USUAL_OF)  # what the last steps took that nothing delayed
        self._curve = Curve()

    @property
    def usual(self) -> int:
        """What a step usually takes; 0 if that is not known yet."""
        return sorted(self._usual)[len(self._usual) // 2] if self._usual else 0

    @property
    def share(self) -> int:
        """What of the first step is training. Of a run with a single step, nothing."""
        return min(self.first, self.usual)

    @property
    def known(self) -> bool:
        """Whether the first step can be divided for good."""
        return len(self._usual) >= ENOUGH

    def step(self, time: int) -> None:
        """A step that nothing delayed took so long."""
        self.made += time
        self._usual.append(time)

    def reach(self, step: int, more: int = 0) -> None:
        """Training has reached that step, with the time so far and some more."""
        self._curve.reach(step, self.made + more)

    def divide(self) -> int:
        """Count the share of the first step as training; return the rest, which is compilation."""
        share, rest = self.share, self.first - self.share
        self.made += share
        self._curve.shift(share)
        self.first = 0
        return rest

    def return_to(self, step: int) -> int:
        """Training continues from an earlier step; return what was trained since then."""
        kept = min(self.made, self._curve.at(step, self.made))
        lost, self.made = self.made - kept, kept
        self._curve.return_to(step, kept)
        return lost

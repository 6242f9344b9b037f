"""When training reached which step: a curve of bounded size, exact where it is needed and coarse in the far past."""

from __future__ import annotations

from bisect import bisect_right

MOST = 256  # points


class Curve:
    """How much training time had passed when each step was reached, in microseconds.

    Of many points the older half is thinned out, and values between points are interpolated. The error is small beside
    the time since then.
    """

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._times: list[int] = []

    def __len__(self) -> int:
        return len(self._steps)

    def reach(self, step: int, time: int) -> None:
        """Training reached a step. If it had reached a later one, as a counter that begins anew has, this counts."""
        if self._steps and step <= self._steps[-1]:
            self._cut(bisect_right(self._steps, step - 1))
        self._steps.append(step)
        self._times.append(time)
        if len(self._steps) > MOST:
            half = MOST // 2
            self._steps[:half] = self._steps[:half:2]
            self._times[:half] = self._times[:half:2]

    def at(self, step: int, now: int) -> int:
        """The training time when a step was reached: nothing before the first one, `now` after the last one."""
        place = bisect_right(self._steps, step)
        if place == 0:
            return 0
        before, time = self._steps[place - 1], self._times[place - 1]
        if step == before:
            return time
        if place == len(self._steps):
            return now
        after = self._steps[place]
        return time + (self._times[place] - time) * (step - before) // (after - before)

    def return_to(self, step: int, time: int) -> None:
        """Training continues from an earlier step; `time` is what `at` says of it."""
        self._cut(bisect_right(self._steps, step))
        if not self._steps or self._steps[-1] != step:
            self._steps.append(step)
            self._times.append(time)

    def shift(self, by: int) -> None:
        """It turns out that so much more training was done before the first of the points."""
        self._times = [time + by for time in self._times]

    def _cut(self, length: int) -> None:
        del self._steps[length:], self._times[length:]

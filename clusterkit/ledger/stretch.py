"""Stretches: the activities of a run between two new steps, and how much of that time is training."""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping

MOST = 64  # the highest number of pieces; beyond that, only the sums of the older half are kept
JITTER = 500_000  # microseconds; a step is late only if it exceeds the limit by more
LATE = 2  # the limit for a step that is not late, as a multiple of its usual time


class Activity(enum.Enum):
    """The activity of a run at a moment, derived from the run's events."""

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


PART = {  # the part to which each activity belongs if nothing else is known
    Activity.WAITING: "startup",
    Activity.STARTING: "startup",
    Activity.FIRST_STEP: "compilation",
    Activity.RUNNING: "training",
    Activity.SAVING: "checkpointing",
    Activity.EVALUATING: "evaluating",
    Activity.PAUSED: "stopped",
    Activity.CUT: "stalled",
    Activity.AWAY: "recovering",
    Activity.FAILED: "recovering",
    Activity.RESTARTING: "recovering",
    Activity.AGAIN: "recovering",
    Activity.ENDING: "ending",
    Activity.UNSEEN: "unseen",
}
IDLE = (Activity.AWAY, Activity.CUT, Activity.PAUSED)  # activities during which training may continue
DOWN = frozenset({Activity.FAILED, Activity.RESTARTING, Activity.AGAIN, Activity.ENDING})
BEFORE = frozenset({Activity.WAITING, Activity.STARTING, Activity.FIRST_STEP, Activity.UNSEEN})
Times = Counter[Activity]  # microseconds
NOTHING = (Times(), Times())


class Stretch:
    """The pieces since the last step: the activity and beginning of each, in microseconds since the run began."""

    def __init__(self, begin: int, kind: Activity) -> None:
        self.begin = begin
        self.kind = kind  # the current activity
        self._pieces = [(begin, kind)]
        self._summed = NOTHING  # sums of older pieces: while training could continue, and after that

    @property
    def plain(self) -> bool:
        """Whether the stretch consists of a single activity."""
        return len(self._pieces) == 1 and self._summed is NOTHING

    def become(self, now: int, kind: Activity) -> None:
        if kind is self.kind:
            return
        self.kind = kind
        if self._pieces[-1][0] == now:
            self._pieces.pop()
        if not self._pieces or self._pieces[-1][1] is not kind:
            self._pieces.append((now, kind))
        if len(self._pieces) > MOST:  # keep only the sums of the oldest pieces
            rest = self._pieces[MOST // 2 :]
            del self._pieces[MOST // 2 :]
            self._summed, self._pieces = self.times(rest[0][0]), rest

    def rename(self, rename: Callable[[Activity], Activity], since: int = 0) -> None:
        """Replace the activities of the pieces from `since` on."""
        self._split(since)
        self._pieces = [(at, rename(kind) if at >= since else kind) for at, kind in self._pieces]
        self.kind = self._pieces[-1][1]
        if since <= self.begin and self._summed is not NOTHING:
            was = self._summed[0] + self._summed[1]
            self._summed = (Times(), Times())
            for kind, time in was.items():
                self._summed[rename(kind) in DOWN][rename(kind)] += time

    def times(self, now: int) -> tuple[Times, Times]:
        """Return the time of each activity: while training could continue, and since the first failure or the end."""
        before, after = Times(self._summed[0]), Times(self._summed[1])
        down = bool(after)
        for (at, kind), end in zip(self._pieces, [at for at, _ in self._pieces[1:]] + [now], strict=True):
            down = down or kind in DOWN
            (after if down else before)[kind] += end - at
        return before, after

    def parts(self, now: int, usual: int, stalled: bool) -> Counter[str]:
        """Divide the time into parts. `usual` is the usual time of a step, as far as it was measured.

        Training may continue while a task is paused, away or cut off; then steps are as frequent as usual. So the
        usual time of a step is counted as training; if the step is not late, all of that time is.
        """
        before, after = self.times(now)
        parts = Counter[str]()
        for kind, time in (before + after).items():
            parts[PART[kind]] += time
        if BEFORE & before.keys():
            return parts
        idle, trained = {PART[kind]: before[kind] for kind in IDLE}, before[Activity.RUNNING]
        if stalled:
            _move(parts, {"training": trained}, "stalled", trained - usual)
        elif (most := sum(idle.values())) + trained <= LATE * usual + JITTER:
            _move(parts, idle, "training", most)
        else:
            _move(parts, idle, "training", usual - trained)
        return parts

    def _split(self, at: int) -> None:
        for place, (begin, kind) in enumerate(self._pieces):
            end = self._pieces[place + 1][0] if place + 1 < len(self._pieces) else at + 1
            if begin < at < end:
                self._pieces.insert(place + 1, (at, kind))
                return


def _move(parts: Counter[str], sources: Mapping[str, int], target: str, most: int) -> None:
    """Move at most `most` microseconds from the sources, one after another, to the target."""
    for source, time in sources.items():
        moved = max(0, min(time, most))
        most -= moved
        parts[source] -= moved
        parts[target] += moved


USUAL_OF = 31  # the number of steps whose times determine the usual time
ENOUGH = 8  # the number of steps needed to separate compilation from training in the first step
MOST_POINTS = 256  # the highest number of points on the curve


class TrainingTime:
    """The training time so far, and when each step was reached. All times are in microseconds.

    Here, a step is the interval between two reports, even if a program reports only every hundredth step. The curve
    stores the training time at which each step was reached. Of many points, the older half is thinned out, and values
    between points are interpolated: the error is small compared to the time since then.
    """

    def __init__(self) -> None:
        self.made = 0  # the time of all steps so far that were not lost
        self.first = 0  # the time of the first step, until it is divided into compilation and training
        self._usual = deque[int](maxlen=USUAL_OF)  # the times of the last steps that nothing delayed
        self._steps: list[int] = []  # the steps on the curve
        self._times: list[int] = []  # the training time at each of these steps

    @property
    def usual(self) -> int:
        """Return the usual time of a step; 0 if it is not known yet."""
        return sorted(self._usual)[len(self._usual) // 2] if self._usual else 0

    @property
    def share(self) -> int:
        """Return the part of the first step that was training; 0 in a run with a single step."""
        return min(self.first, self.usual)

    @property
    def known(self) -> bool:
        """Whether the first step can be divided for good."""
        return len(self._usual) >= ENOUGH

    def step(self, time: int) -> None:
        """Count a step that nothing delayed."""
        self.made += time
        self._usual.append(time)

    def reach(self, step: int, more: int = 0) -> None:
        """Note that training has reached a step, after the time so far and `more`."""
        steps, times = self._steps, self._times
        if steps and step <= steps[-1]:  # the program restarted its step counter
            self._cut(bisect_left(steps, step))
        steps.append(step)
        times.append(self.made + more)
        if len(steps) > MOST_POINTS:
            half = MOST_POINTS // 2
            steps[:half], times[:half] = steps[:half:2], times[:half:2]

    def divide(self) -> int:
        """Add the `share` of the first step to the training time; return the rest, which is compilation."""
        share, rest = self.share, self.first - self.share
        self.made += share
        self._times = [time + share for time in self._times]
        self.first = 0
        return rest

    def return_to(self, step: int) -> int:
        """Go back to an earlier step, from which training continues; return the lost training time."""
        kept = min(self.made, self._at(step))
        lost, self.made = self.made - kept, kept
        self._cut(bisect_right(self._steps, step))
        if not self._steps or self._steps[-1] != step:
            self._steps.append(step)
            self._times.append(kept)
        return lost

    def _at(self, step: int) -> int:
        """Return the training time when a step was reached: 0 before the first point, the total after the last one."""
        place = bisect_right(self._steps, step)
        if place == 0:
            return 0
        before, time = self._steps[place - 1], self._times[place - 1]
        if step == before:
            return time
        if place == len(self._steps):
            return self.made
        span = self._steps[place] - before
        return time + (self._times[place] - time) * (step - before) // span

    def _cut(self, length: int) -> None:
        del self._steps[length:], self._times[length:]

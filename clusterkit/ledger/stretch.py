"""Stretches: a run's activities between two new steps, and how much of that time is training."""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping

MOST_PIECES = 64  # the maximum number of pieces; if there are more, the older half is replaced by its sums
LATE_MARGIN = 500_000  # microseconds; a step is late only if it exceeds the limit by more than this
LATE_FACTOR = 2  # the time limit for a step, as a multiple of the usual time


class Activity(enum.Enum):
    """The activity of a run at a given moment, derived from the run's events."""

    WAITING = "waiting for the first process"
    STARTING = "the program runs"
    FIRST_STEP = "the first step has begun"
    RUNNING = "training"
    SAVING = "a checkpoint"
    EVALUATING = "another phase without steps"
    PAUSED = "a task is paused"
    PARTITION = "the network is partitioned"
    TASK_DOWN = "a task restarts, and training may continue without it"
    FAILED = "a task failed, and nothing is decided yet"
    RESTARTING = "a restart, until the first new step"
    RESTARTED = "a restart, after every task runs again"
    ENDING = "the end"
    NO_STEPS = "the program ran, but reported no step"


PART_OF = {  # the part of the account to which each activity belongs by default
    Activity.WAITING: "startup",
    Activity.STARTING: "startup",
    Activity.FIRST_STEP: "compilation",
    Activity.RUNNING: "training",
    Activity.SAVING: "checkpointing",
    Activity.EVALUATING: "evaluating",
    Activity.PAUSED: "stopped",
    Activity.PARTITION: "stalled",
    Activity.TASK_DOWN: "recovering",
    Activity.FAILED: "recovering",
    Activity.RESTARTING: "recovering",
    Activity.RESTARTED: "recovering",
    Activity.ENDING: "ending",
    Activity.NO_STEPS: "unseen",
}
MAY_TRAIN = (Activity.TASK_DOWN, Activity.PARTITION, Activity.PAUSED)  # activities during which training may continue
NO_TRAINING = frozenset({Activity.FAILED, Activity.RESTARTING, Activity.RESTARTED, Activity.ENDING})
BEFORE_TRAINING = frozenset({Activity.WAITING, Activity.STARTING, Activity.FIRST_STEP, Activity.NO_STEPS})
Times = Counter[Activity]  # microseconds
NO_TIMES = (Times(), Times())


class Stretch:
    """The time since the last step, in pieces with one activity each. Times are in microseconds since the run began."""

    def __init__(self, begin: int, kind: Activity) -> None:
        self.begin = begin
        self.kind = kind  # the current activity
        self._pieces = [(begin, kind)]
        self._summed = NO_TIMES  # the sums of older pieces: those before training had to stop, and those since then

    @property
    def is_single(self) -> bool:
        return len(self._pieces) == 1 and self._summed is NO_TIMES

    def change(self, now: int, kind: Activity) -> None:
        if kind is self.kind:
            return
        self.kind = kind
        if self._pieces[-1][0] == now:
            self._pieces.pop()
        if not self._pieces or self._pieces[-1][1] is not kind:
            self._pieces.append((now, kind))
        if len(self._pieces) > MOST_PIECES:  # keep only the sums of the oldest pieces
            rest = self._pieces[MOST_PIECES // 2 :]
            del self._pieces[MOST_PIECES // 2 :]
            self._summed, self._pieces = self.times(rest[0][0]), rest

    def rename(self, rename: Callable[[Activity], Activity], since: int = 0) -> None:
        """Replace the activity of each piece from `since` on by `rename(activity)`."""
        self._split(since)
        self._pieces = [(at, rename(kind) if at >= since else kind) for at, kind in self._pieces]
        self.kind = self._pieces[-1][1]
        if since <= self.begin and self._summed is not NO_TIMES:
            sums = self._summed[0] + self._summed[1]
            self._summed = (Times(), Times())
            for kind, time in sums.items():
                self._summed[rename(kind) in NO_TRAINING][rename(kind)] += time

    def times(self, now: int) -> tuple[Times, Times]:
        """Return the time of each activity before training had to stop (at a failure or at the end), and after."""
        before, after = Times(self._summed[0]), Times(self._summed[1])
        down = bool(after)
        for (at, kind), end in zip(self._pieces, [at for at, _ in self._pieces[1:]] + [now], strict=True):
            down = down or kind in NO_TRAINING
            (after if down else before)[kind] += end - at
        return before, after

    def parts(self, now: int, usual: int, stalled: bool) -> Counter[str]:
        """Divide the time into parts. `usual` is the usual time of a step; 0 if it is not known yet.

        Training may continue while a task is paused, restarting or partitioned. If the next step is not late, all of
        that time counts as training; otherwise, only the usual time of a step does.
        """
        before, after = self.times(now)
        parts = Counter[str]()
        for kind, time in (before + after).items():
            parts[PART_OF[kind]] += time
        if BEFORE_TRAINING & before.keys():
            return parts
        idle, trained = {PART_OF[kind]: before[kind] for kind in MAY_TRAIN}, before[Activity.RUNNING]
        if stalled:
            _move(parts, {"training": trained}, "stalled", trained - usual)
        elif (most := sum(idle.values())) + trained <= LATE_FACTOR * usual + LATE_MARGIN:
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


USUAL_SAMPLE = 31  # the number of steps whose times determine the usual time
LEAST_SAMPLE = 8  # the number of steps after which the first step is divided into compilation and training
MOST_POINTS = 256  # the maximum number of points on the curve


class TrainingTime:
    """The training time so far, and when each step was reached. All times are in microseconds.

    Here, a step is the interval between two reports, even if a program reports only every hundredth step. The curve
    stores the training time at which each step was reached. If the curve has many points, every second point of its
    older half is dropped, and values between points are interpolated. The error of an interpolated value is small
    compared to its age.
    """

    def __init__(self) -> None:
        self.step_time = 0  # the time of all steps so far that were not lost
        self.first_step_time = 0  # the time of the first step; 0 once the time is divided into compilation and training
        self._recent = deque[int](maxlen=USUAL_SAMPLE)  # the times of the last steps that were not delayed
        self._steps: list[int] = []  # the steps on the curve
        self._times: list[int] = []  # the training time at each of these steps

    @property
    def usual(self) -> int:
        """Return the usual time of a step; 0 if it is not known yet."""
        return sorted(self._recent)[len(self._recent) // 2] if self._recent else 0

    @property
    def first_step_share(self) -> int:
        """Return the part of the first step's time that was training; 0 in a run with a single step."""
        return min(self.first_step_time, self.usual)

    @property
    def can_divide(self) -> bool:
        """Return whether enough steps are known to divide the first step's time for good."""
        return len(self._recent) >= LEAST_SAMPLE

    def step(self, time: int) -> None:
        """Count a step that was not delayed."""
        self.step_time += time
        self._recent.append(time)

    def reach(self, step: int, more: int = 0) -> None:
        """Note that training has reached a step. `more` is training time that is not yet included in `step_time`."""
        steps, times = self._steps, self._times
        if steps and step <= steps[-1]:  # the program restarted its step counter
            self._truncate(bisect_left(steps, step))
        steps.append(step)
        times.append(self.step_time + more)
        if len(steps) > MOST_POINTS:
            half = MOST_POINTS // 2
            steps[:half], times[:half] = steps[:half:2], times[:half:2]

    def divide_first_step(self) -> int:
        """Count the training share of the first step's time as training; return the rest, which is compilation."""
        share, rest = self.first_step_share, self.first_step_time - self.first_step_share
        self.step_time += share
        self._times = [time + share for time in self._times]
        self.first_step_time = 0
        return rest

    def go_back_to(self, step: int) -> int:
        """Go back to an earlier step, from which training continues; return the lost training time."""
        kept = min(self.step_time, self._time_at(step))
        lost, self.step_time = self.step_time - kept, kept
        self._truncate(bisect_right(self._steps, step))
        if not self._steps or self._steps[-1] != step:
            self._steps.append(step)
            self._times.append(kept)
        return lost

    def _time_at(self, step: int) -> int:
        """Return the training time when a step was reached; 0 before the first point, the total after the last."""
        place = bisect_right(self._steps, step)
        if place == 0:
            return 0
        before, time = self._steps[place - 1], self._times[place - 1]
        if step == before:
            return time
        if place == len(self._steps):
            return self.step_time
        span = self._steps[place] - before
        return time + (self._times[place] - time) * (step - before) // span

    def _truncate(self, length: int) -> None:
        del self._steps[length:], self._times[length:]

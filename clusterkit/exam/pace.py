"""How long the runs of an exam take: estimates, when a first run has shown enough, and how many fit side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from clusterkit.chaos.invariants import last_metrics
from clusterkit.chaos.model import Baseline, Timed
from clusterkit.text.durations import shown
from clusterkit.words.events import Checkpointed, Progressed, Spawned
from clusterkit.words.model import number_of

AROUND = 1.0  # seconds; how long a run takes besides its attempts, to start and end the supervisor
STARTUP = 2.0  # seconds; how long an attempt takes until its first step, if no step was reported
# An exam with all four chapters needs about six runs of the program, two at a time where that is possible. So the first
# run, from its first step on, may take this part of the budget.
PART = 6.0
LEAST_STEPS = 3  # the least number of steps that a first run makes, however long they take
# The number of steps after a checkpoint that a first run makes, so that later ones can be interrupted between them. A
# worker may be a step behind the others when the run is ended.
AFTER_A_SAVE = 3
NEARLY_DONE = 0.5  # a first run that would end within this part of its allowance is not ended
AFTER_A_BREAK = 2  # the least number of steps that a run makes after the step of its interruption
WORTH = 0.5  # seconds; a run is only ended early if that saves as much
SPARE = 1.25  # tasks wait for each other, so the runs side by side may use more CPU time than there is, by this factor
MEMORY_SHARE = 0.7  # the share of the available memory that the runs side by side may use


@dataclass(frozen=True, slots=True)
class StepPace:
    """How fast a program is, in seconds: from the start of an attempt to its first step, and from step to step."""

    startup: float = STARTUP
    step: float = 0.0

    def seconds(self, steps: int, attempts: int = 1) -> float:
        """Return how long a run with this many steps and attempts takes."""
        return AROUND + attempts * self.startup + steps * self.step


def pace_of(events: Timed) -> StepPace:
    """Return the pace of a run without interruptions."""
    spawned = [at for at, event in events if isinstance(event, Spawned)]
    steps = [(at, event.step) for at, event in events if isinstance(event, Progressed) and event.task.trains]
    if not spawned or not steps:
        return StepPace()
    (first, begin), (last, end) = steps[0], max(steps, key=lambda one: one[1])
    return StepPace(max(0.0, first - min(spawned)), (last - first) / (end - begin) if end > begin else 0.0)


@dataclass(slots=True)
class FirstRun:
    """What the first run of an exam has shown so far. `allowance` is how long it may train, in seconds."""

    allowance: float
    began: float | None = None  # when the first step was reported
    now: float = 0.0  # the time of the newest step
    step: int = 0
    total: int | None = None  # the step at which training will end, if the program has reported it
    saved: int | None = None  # the step of the first checkpoint

    def add(self, at: float, event: object) -> None:
        """Take note of an event of the run at the time `at`, in seconds."""
        if isinstance(event, Progressed) and event.task.trains:
            self.began = at if self.began is None else self.began
            self.now = at
            self.step, self.total = max(self.step, event.step), event.total or self.total
        elif isinstance(event, Checkpointed) and event.step > 0 and self.saved is None:
            self.saved = event.step

    def is_enough(self) -> bool:
        """Return whether the run can be ended, because a run to its end would take too long.

        A run that has saved a checkpoint, and has made some steps since, is enough for every chapter. Without a
        checkpoint, the run gets twice the allowance.
        """
        if self.began is None or self.step < LEAST_STEPS:
            return False
        seconds = self.now - self.began
        if self.total is None:
            is_long = seconds > self.allowance
        else:
            expected = seconds * self.total / self.step
            is_long = expected > self.allowance and expected - seconds > NEARLY_DONE * self.allowance
        if not is_long:
            return False
        is_resumable = self.saved is not None and self.step >= self.saved + AFTER_A_SAVE
        return is_resumable or seconds > 2 * self.allowance


def shortened(baseline: Baseline, events: Timed, last: int) -> Baseline:
    """Return the baseline of a run that ends after the step `last`."""
    until = [(at, one) for at, one in events if not isinstance(one, Progressed) or one.step <= last]
    return replace(
        baseline,
        last_step=last,
        checkpoints=tuple(step for step in baseline.checkpoints if step <= last),
        metrics={name: value for name, value in last_metrics(until).items() if value is not None},
    )


def recorded_end(point: int, recorded: Collection[int], last: int | None, pace: StepPace) -> int | None:
    """Return the step after which a run that is interrupted after the step `point` has shown all that is compared.

    This is a step whose state the unbroken run has recorded, some steps later. Return None if the run should rather go
    to its own end, after the step `last`, since an earlier end would save no time worth mentioning.
    """
    if last is None:
        return None
    found = min((step for step in recorded if point + AFTER_A_BREAK <= step < last), default=None)
    return None if found is None or (last - found) * pace.step < WORTH else found


def runs_at_once(cores: int, memory: float, used_cores: float, used_memory: float) -> int:
    """Return how many runs fit side by side on a machine, given what one run uses; at least one.

    `cores` is the number of cores that may be used, `used_cores` how many of them a run keeps busy. Memory is in bytes;
    it is infinite if nobody knows how much there is.
    """
    by_cores = min(cores, round(SPARE * cores / max(used_cores, 0.01)))
    by_memory = MEMORY_SHARE * memory / max(used_memory, 1.0)
    return max(1, int(min(by_cores, by_memory)))


def announcement(pace: StepPace, seconds: Sequence[float], cells: Sequence[int], left: float, slots: int,
                 last: int | None) -> str:  # fmt: skip
    """Say how long the program takes, and how much of the exam will be examined.

    `seconds` are the estimates of the exam's remaining experiments, in order, and `cells` the numbers of their cells.
    `left` are the seconds until no more cells are examined; infinite if all are. `slots` is the number of runs side by
    side, and `last` the step after which the runs are ended; None stands for the program's own end.
    """
    step = f"{pace.step * 1000:.0f} ms" if pace.step < 1 else shown(pace.step)
    ended = f", and runs end after step {last}" if last is not None else ""
    side = f", {slots} runs at a time" if slots > 1 else ""
    count, total = sum(cells), sum(seconds) / slots
    planned = f"{number_of('cell', count)} in about {about(total)}"
    if total > left:
        fit = cells_within(seconds, cells, left, slots)
        planned = f"about {fit} of {number_of('cell', count)} in {about(left)}"
    return f"A step takes {step}{ended}: {planned}{side}."


def cells_within(seconds: Sequence[float], cells: Sequence[int], left: float, slots: int) -> int:
    """Return the number of cells of the experiments that begin before the time is up."""
    begun, found = 0.0, 0
    for each, number in zip(seconds, cells, strict=True):
        if begun >= left:
            break
        found += number
        begun += each / slots
    return found


def about(seconds: float) -> str:
    """Format an estimate: `10 s`, `50 s`, `4 min`."""
    if seconds < 57.5:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{round(seconds / 60)} min"

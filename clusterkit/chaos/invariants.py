"""Invariants: conditions that must hold after every run of a campaign, regardless of the faults."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.chaos.model import Baseline, Timed
from clusterkit.words.events import (
    AttemptEnded,
    Checkpointed,
    CheckpointFound,
    FaultInjected,
    FaultTook,
    Progressed,
    RestartPlanned,
    Resumed,
    Spawned,
)
from clusterkit.words.faults import FaultAction, plain
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import RunResult, RunState

ACCURACY, LOSS = "accuracy", "loss"
# The tolerance for an accuracy is larger than the usual difference between runs (0.01 to 0.02 in asynchronous training
# with parameter servers), but smaller than the difference that a lost model makes.
TOLERANCE = 0.05
# The tolerance for a loss, relative to the baseline's loss. Losses vary from step to step, but the loss of a lost model
# is many times higher.
LOSS_TOLERANCE = 0.5
SMALL_VALUE = 0.1  # if the baseline's loss is smaller, the tolerance is relative to this number instead


@dataclass(frozen=True, slots=True)
class Measure:
    """The metric to compare with the baseline: by default the accuracy or, if the job reports no accuracy, the loss."""

    name: str | None = None
    tolerance: float | None = None

    def metric_in(self, baseline: Baseline) -> str | None:
        """Return the name of the metric to compare; None if the baseline has no such metric."""
        names = (ACCURACY, LOSS) if self.name is None else (self.name,)
        return next((name for name in names if name in baseline.metrics), None)

    def allowed(self, name: str, expected: float) -> float:
        """Return how much a metric may differ from the baseline's value `expected`. A loss's tolerance is relative."""
        if name == LOSS:
            relative = LOSS_TOLERANCE if self.tolerance is None else self.tolerance
            return relative * max(abs(expected), SMALL_VALUE)
        return TOLERANCE if self.tolerance is None else self.tolerance


DEFAULT = Measure()
_NOT_RESTORED = "began at step 0 although there was a checkpoint: it was not restored."


class _Violation(NamedTuple):
    """A violation of an invariant by an attempt. `text` is the predicate of a sentence about the attempt.

    `first_step` is the step from which the attempt continued, if this is what violates the invariant.
    """

    task: Task
    attempt: int
    text: str
    first_step: int | None = None


def baseline_of(result: RunResult, events: Timed) -> Baseline:
    """Derive the baseline from the result and the events of a run without faults."""
    steps = [event.step for _, event in events if isinstance(event, Checkpointed)]
    return Baseline(
        duration=result.duration,
        last_step=result.last_step,
        checkpoints=tuple(dict.fromkeys(steps)),
        saving=tuple(_saving(events)),
        metrics={name: value for name, value in last_metrics(events).items() if value is not None},
    )


def _saving(events: Timed) -> Iterator[tuple[int, float]]:
    """Yield the step of each checkpoint, and the seconds from the report of the step to that of the checkpoint."""
    reported: dict[tuple[Task, int], float] = {}
    for now, event in events:
        if isinstance(event, Progressed):
            reported.setdefault((event.task, event.step), now)
        elif isinstance(event, Checkpointed) and (begin := reported.get((event.task, event.step))) is not None:
            yield event.step, now - begin


def last_metrics(events: Timed) -> dict[str, float | None]:
    """Return the last value of every metric that a training task reported; None for NaN and infinities."""
    found: dict[str, float | None] = {}
    for _, event in events:
        if isinstance(event, Progressed) and event.task.trains:
            found |= event.metrics
    return found


def violations(
    job: JobSpec, baseline: Baseline, result: RunResult | None, events: Timed, leftovers: Sequence[str] = (),
    measure: Measure = DEFAULT,
) -> list[str]:  # fmt: skip
    """Return a sentence for each violated invariant. `leftovers` are sentences about processes or files left behind."""
    found = []
    if result is None:
        found.append("The run left no result.")
    elif result.state is not RunState.SUCCEEDED:
        found.append(f"The job {result.state}: {result.reason}.")
    else:
        if result.last_step != baseline.last_step:
            ends = f"without faults it ends at step {baseline.last_step}"
            found.append(f"The job ended at step {result.last_step}; {ends}.")
        found += _metric_violation(baseline, events, measure)
    found += _merge_violations(_lost_step_violations(job, events))
    found += _merge_violations(_cause_violations(events))
    return [*found, *leftovers]


def _metric_violation(baseline: Baseline, events: Timed, measure: Measure) -> Iterator[str]:
    name = measure.metric_in(baseline)
    if name is None:
        return
    expected, last = baseline.metrics[name], last_metrics(events)
    value = last.get(name)
    if name not in last:
        yield f"The job reported no {name}; without faults it reports {plain(expected)}."
    elif value is None:
        yield f"The final {name} is NaN or infinite; without faults it is {expected:.4g}."
    elif abs(value - expected) > measure.allowed(name, expected):
        allowed = plain(measure.allowed(name, expected))
        yield f"The final {name} is {value:.4g}; without faults it is {expected:.4g}, and {allowed} is allowed."


@dataclass(slots=True)
class _CheckpointTracker:
    """Tracks the complete checkpoints, and the newest checkpoint that each attempt could have resumed from."""

    steps: list[int] = field(default_factory=list)  # the steps of the complete checkpoints, the newest last
    names: dict[int, str] = field(default_factory=dict)  # maps the step of each reported checkpoint to its file name
    ambiguous: list[str] = field(default_factory=list)  # damaged files that belong to no checkpoint reported so far
    at_start: dict[tuple[Task, int], int] = field(default_factory=dict)  # the newest checkpoint when an attempt started
    resumed: set[tuple[Task, int]] = field(default_factory=set)  # attempts whose first step is known
    resumed_early: set[tuple[Task, int]] = field(default_factory=set)  # restarts before the first reported checkpoint
    found_steps: set[tuple[Task, int]] = field(default_factory=set)  # attempts in `resumed_early` with a checkpoint
    began_at_zero: set[tuple[Task, int]] = field(default_factory=set)  # attempts that began at step 0

    def add(self, event: Checkpointed) -> None:
        self.steps = [step for step in self.steps if step != event.step] + [event.step]
        self.names[event.step] = event.path.rpartition("/")[2]
        for file in self.ambiguous:
            if self._has_file(event.step, file):  # the checkpoint was damaged before it was reported
                self.ambiguous.remove(file)
                self.steps.remove(event.step)
                return

    def damage(self, file: str | None) -> None:
        """Forget the checkpoint to which a damaged file belongs; if this is unknown, the newest checkpoint."""
        damaged = [] if file is None else [step for step in self.steps if self._has_file(step, file)]
        if file is not None and not damaged:
            self.ambiguous.append(file)
        if self.steps:
            self._forget(damaged[-1] if damaged else self.steps[-1])

    def _forget(self, gone: int) -> None:
        """Forget a checkpoint. Expect attempts that have not resumed yet to use the newest remaining checkpoint."""
        self.steps.remove(gone)
        for key in [key for key, step in self.at_start.items() if step == gone and key not in self.resumed]:
            del self.at_start[key]
            if self.steps:
                self.at_start[key] = self.steps[-1]

    def _has_file(self, step: int, file: str) -> bool:
        return re.search(rf"(?<![\w.-]){re.escape(self.names[step])}(?!\d)", file) is not None

    def spawned(self, event: Spawned) -> None:
        key = event.task, event.attempt
        if event.attempt > 1 and self.steps:
            self.at_start[key] = self.steps[-1]
        elif event.attempt > 1 and not self.names:
            self.resumed_early.add(key)
            if event.checkpoint is not None:
                self.found_steps.add(key)


def _lost_step_violations(job: JobSpec, events: Timed) -> Iterator[_Violation]:
    """Yield a violation for each attempt that resumed from a step before the newest checkpoint."""
    saved, corrupted = _CheckpointTracker(), set[int]()
    for _, event in events:
        match event:
            case Checkpointed():
                saved.add(event)
            case FaultInjected(number=number, action=FaultAction.CORRUPT):
                corrupted.add(number)
            case FaultTook(number, _, True, file) if number in corrupted:
                corrupted.discard(number)
                saved.damage(file)
            case Spawned():
                saved.spawned(event)
            case CheckpointFound(task, attempt) if (task, attempt) in saved.resumed_early - saved.found_steps:
                saved.found_steps.add((task, attempt))
                if (task, attempt) in saved.began_at_zero:
                    yield _Violation(task, attempt, _NOT_RESTORED, 0)
            case Resumed(task, attempt, step):
                saved.resumed.add((task, attempt))
                yield from _resumption(saved, task, attempt, step)
            case Progressed(task, attempt, step) if task.trains and (task, attempt) not in saved.resumed:
                # The program did not report the step from which it resumed, so derive this step from its first report.
                saved.resumed.add((task, attempt))
                if not job.is_server(task):
                    yield from _resumption(saved, task, attempt, step - 1)


def began_anew(job: JobSpec, events: Timed) -> bool:
    """Return whether an attempt began at step 0 although a checkpoint existed."""
    return any(said.first_step is not None and said.first_step <= 0 for said in _lost_step_violations(job, events))


def _resumption(saved: _CheckpointTracker, task: Task, attempt: int, step: int) -> Iterator[_Violation]:
    key = task, attempt
    newest = saved.at_start.get(key)
    if newest is not None and step < newest:
        lost = number_of("step", newest - step)
        what = f"continued from step {step} although the checkpoint of step {newest} was complete: {lost} lost."
        yield _Violation(task, attempt, what, step)
    elif step <= 0:
        saved.began_at_zero.add(key)
        if key in saved.found_steps:
            yield _Violation(task, attempt, _NOT_RESTORED, 0)


def _cause_violations(events: Timed) -> Iterator[_Violation]:
    """Yield a violation for each attempt that caused a restart by a failure that no fault explains."""
    faults = [event for _, event in events if isinstance(event, FaultInjected)]
    injected = {task for fault in faults for task in (*fault.tasks, *fault.others)}
    where = ", ".join(map(str, sorted(injected))) or "no task"
    ended = {(event.task, event.attempt): event for _, event in events if isinstance(event, AttemptEnded)}
    causes = [event.cause for _, event in events if isinstance(event, RestartPlanned) and event.cause is not None]
    for cause in {(cause.task, cause.attempt): cause for cause in causes if not cause.exit.ok}.values():
        if ended[cause.task, cause.attempt].fault is None:
            what = f"{cause.exit} and was named as the cause of a restart, but no fault accounts for that: "
            yield _Violation(cause.task, cause.attempt, f"{what}they were injected into {where}.")


def _merge_violations(violations: Iterable[_Violation]) -> Iterator[str]:
    """Yield a sentence for each violation. Equal violations by several attempts of a task share one sentence."""
    attempts = defaultdict[tuple[Task, str], list[int]](list)
    for one in violations:
        attempts[one.task, one.text].append(one.attempt)
    for (task, what), numbers in attempts.items():
        which = f"attempt {numbers[0]}" if len(numbers) == 1 else f"attempts {', '.join(map(str, numbers))}"
        yield f"{task} ({which}) {what}"

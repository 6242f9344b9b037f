"""Runs campaigns: a run without faults, then many runs with faults, in parallel. Failing schedules are shrunk.

The runs are started through the Python API, so they share a warm server, which imports TensorFlow only once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TypeVar

from clusterkit.chaos.invariants import DEFAULT, Measure, baseline_of
from clusterkit.chaos.model import Baseline, Outcome, SmallestSchedule, Trial
from clusterkit.chaos.schedule import Plan, trial, useful
from clusterkit.chaos.shrinking import have_common, shrink
from clusterkit.chaos.trial import FinishedRun, JobTemplate, Trials
from clusterkit.words.faults import FaultAction

TRIES = 3  # the number of runs that a candidate has to pass, since a fault may miss the write that it is aimed at
LONGEST_SHRINK = 40  # the maximum number of runs to shrink one failing schedule
POLL_EVERY = 0.5  # seconds; the maximum duration of one wait, see `_next_item`
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """The settings of a campaign, apart from its job. `most_shrunk` is the maximum number of failing runs to shrink."""

    name: str
    runs: int
    seed: int
    actions: tuple[FaultAction, ...]
    rate: float
    parallel: int
    most_shrunk: int
    measure: Measure = DEFAULT
    keep: bool = False
    fail_fast: bool = False  # True to start no more runs after a failure


@dataclass(slots=True)
class Campaign:
    """A campaign in progress. `shrunk` has the smallest schedules by the numbers of the failing trials."""

    terms: CampaignSettings
    trials: Trials
    plan: Plan
    shrunk: dict[int, SmallestSchedule] = field(default_factory=dict)
    interrupted: list[Outcome] = field(default_factory=list)  # runs cut short by the end of the campaign
    began_at: Callable[[Trial], None] = lambda trial: None  # called when a run begins, by several threads
    _failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, template: JobTemplate, terms: CampaignSettings) -> Campaign | FinishedRun:
        """Do the run without faults. Return the campaign or, if the run failed, the run."""
        always = template.job.faults
        template = template.with_changes({}, "fault", "seed")
        trials = Trials(template, terms.name, terms.keep, terms.measure)
        try:
            ended = trials.baseline()
        except BaseException:
            trials.stop()
            raise
        if ended.result is None or not ended.has_succeeded:
            return ended
        baseline = baseline_of(ended.result, ended.events)
        if not terms.keep:
            trials.remove(ended.run.run_id)
        trials.limit(baseline.duration)
        actions = useful(terms.actions, baseline)
        return cls(terms, trials, Plan(template.job, baseline, actions, terms.rate, always))

    @property
    def baseline(self) -> Baseline:
        return self.plan.baseline

    def run(self) -> Generator[Outcome, None, None]:
        """Yield each outcome once the run has ended and, if it failed, its schedule is shrunk.

        If the caller closes the generator early, live runs are ended.
        """
        pool = ThreadPoolExecutor(self.terms.parallel, thread_name_prefix="trial")
        try:
            ended = SimpleQueue[Future[Outcome | None]]()
            for number in range(1, self.terms.runs + 1):
                pool.submit(self._run_trial, number).add_done_callback(ended.put)
            for _ in range(self.terms.runs):
                if (outcome := _next_item(ended).result()) is not None:
                    yield outcome
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self.trials.stop()
            pool.shutdown()

    def replay(self, outcome: Outcome | SmallestSchedule) -> str:
        return self.trials.replay(outcome.trial)

    def _run_trial(self, number: int) -> Outcome | None:
        """Do a run, and shrink its schedule if it fails. Return None if the campaign starts no more runs."""
        if self.trials.stopped or (self.terms.fail_fast and self._failed):
            return None
        drawn = trial(self.plan, self.terms.seed, number)
        self.began_at(drawn)
        outcome = self.trials.run(drawn, self.baseline)
        if outcome.interrupted:
            self.interrupted.append(outcome)
        if self._has_to_shrink(outcome):
            self.shrunk[number] = self._shrink(outcome)
        return outcome

    def _has_to_shrink(self, outcome: Outcome) -> bool:
        if not outcome.violations or self.trials.stopped:
            return False
        with self._lock:  # another run may fail at the same time
            self._failed += 1
            return self._failed <= self.terms.most_shrunk

    def _shrink(self, failing: Outcome) -> SmallestSchedule:
        best = SmallestSchedule(failing.trial, failing.violations, 0)
        search = shrink(failing.trial.faults, failing.pinned)
        runs, is_running = 0, None
        try:
            while runs < LONGEST_SHRINK and not self.trials.stopped:
                faults = next(search) if is_running is None else search.send(is_running)
                candidate = replace(failing.trial, faults=faults)
                is_running = False
                for _ in range(TRIES):
                    runs += 1
                    outcome = self.trials.run(candidate, self.baseline, f"-shrink-{runs}")
                    if is_running := have_common(outcome.violations, failing.violations) and not self.trials.stopped:
                        best = SmallestSchedule(candidate, outcome.violations, runs)
                        break
        except StopIteration:
            pass
        return replace(best, runs=runs)


def _next_item(ended: SimpleQueue[T]) -> T:
    """Wait for the next item. Waits are short, since a signal that arrives just before a wait is handled after it."""
    while True:
        with suppress(Empty):
            return ended.get(timeout=POLL_EVERY)

"""Runs campaigns: one run without faults, then many runs with faults, in parallel. Shrinks the schedules that fail.

The runs are started through the Python API, so they share a warm server, which imports TensorFlow only once. A
campaign's record, which is shown in reports and on the page, is updated whenever a run begins or ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from clusterkit.chaos.invariants import DEFAULT, Measure, baseline_of
from clusterkit.chaos.model import Baseline, Outcome, SmallestSchedule, Trial
from clusterkit.chaos.schedule import Plan, trial, useful
from clusterkit.chaos.shrinking import have_common, shrink
from clusterkit.chaos.text import document
from clusterkit.chaos.trial import FinishedRun, JobTemplate, Trials
from clusterkit.store.campaigns import RUNNING, CampaignFile
from clusterkit.words import wire
from clusterkit.words.faults import FaultAction
from clusterkit.words.secrets import without_secrets

# The number of runs that a candidate has to pass, since a fault may miss the write at which it is aimed.
TRIES = 3
LONGEST_SHRINK = 40  # the maximum number of runs for shrinking one failing schedule
POLL_EVERY = 0.5  # seconds; the maximum duration of a wait in `_next_item`
T = TypeVar("T")
FORMAT = 1  # the version of the record's format; readers ignore unknown keys


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """The settings of a campaign, apart from its job. `most_shrunk` is the maximum number of schedules to shrink."""

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
    """A campaign in progress. `shrunk` maps the number of a failing trial to its smallest schedule."""

    terms: CampaignSettings
    trials: Trials
    plan: Plan
    shrunk: dict[int, SmallestSchedule] = field(default_factory=dict)
    interrupted: list[Outcome] = field(default_factory=list)  # the runs that were ended early with the campaign
    on_begin: Callable[[Trial], None] = lambda trial: None  # called when a run begins, by any thread
    _failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, template: JobTemplate, terms: CampaignSettings) -> Campaign | FinishedRun:
        """Run the job without faults. Return the campaign or, if this run failed, the run."""
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
        """Yield the outcome of each run when the run has ended and, if it failed, its schedule has been shrunk.

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
        """Return a command that runs a trial again, and can be stored."""
        return self.trials.replay(outcome.trial)

    def shown_replay(self, outcome: Outcome | SmallestSchedule) -> str:
        """Return the same command for the user who has started the campaign, to be pasted into the same shell."""
        return self.trials.replay(outcome.trial, os.environ)

    def _run_trial(self, number: int) -> Outcome | None:
        """Run a trial, and shrink its schedule if it fails. Return None if the campaign no longer starts runs."""
        if self.trials.stopped or (self.terms.fail_fast and self._failed):
            return None
        drawn = trial(self.plan, self.terms.seed, number)
        self.on_begin(drawn)
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
    """Wait for the next item. Wait in short intervals: a signal that arrives just before a wait is handled after it."""
    while True:
        with suppress(Empty):
            return ended.get(timeout=POLL_EVERY)


@dataclass(slots=True)
class RecordWriter:
    """Writes the record of a campaign. Thread-safe. If a write fails, the campaign continues with a warning."""

    file: CampaignFile
    head: dict[str, Any]
    warn: Callable[[str], None]
    campaign: Campaign | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    _running: dict[int, Trial] = field(default_factory=dict)
    _warned: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def make(cls, file: CampaignFile, asked: JobTemplate, terms: CampaignSettings, warn: Callable[[str], None],
             **more: Any) -> RecordWriter:  # fmt: skip
        """Create the record of a new campaign. `more` are additional entries. Raises RunDirectoryError."""
        record = cls(file, {**_head(asked, terms), **more}, warn)
        file.make(record.document())
        return record

    def campaign_began(self, campaign: Campaign) -> None:
        """Record that the run without faults has succeeded. From now on, also record the start of each run."""
        with self._lock:
            self.campaign = campaign
            campaign.on_begin = self.trial_began
            self._write()

    def trial_began(self, trial: Trial) -> None:
        with self._lock:
            self._running[trial.number] = trial
            self._write()

    def trial_ended(self, outcome: Outcome) -> None:
        """Record the outcome of a run and, if it failed, its smallest schedule."""
        with self._lock:
            self._running.pop(outcome.trial.number, None)
            self.outcomes.append(outcome)
            self.outcomes.sort(key=lambda one: one.trial.number)
            self._write()

    def close(self, state: str, problem: str = "") -> None:
        """Record the final `state`: passed, failed or stopped. `problem` is why the campaign could not continue."""
        with self._lock:
            self._running.clear()
            self.head |= {"state": state, "problem": problem, "ended": time.time()}
            self._write()
            self.file.close()

    def document(self) -> dict[str, Any]:
        """Return the current record. Times are in seconds; `begun` and `ended` are wall-clock times."""
        finished = {} if self.campaign is None else campaign_json(self.campaign, self.outcomes)
        running = [
            {"run": trial.number, "run_id": f"{self.head['campaign']}-{trial.number}", "seed": trial.seed,
             "faults": list(map(str, trial.faults))}
            for trial in self._running.values()
        ]  # fmt: skip
        return {**self.head, **finished, "running": sorted(running, key=lambda one: one["run"])}

    def _write(self) -> None:
        try:
            self.file.write(self.document())
        except OSError as error:
            if not self._warned:
                self._warned = True
                self.warn(f"The campaign's record {self.file.path} can't be written: {error.strerror}.")


def campaign_json(campaign: Campaign, outcomes: list[Outcome]) -> dict[str, Any]:
    terms = campaign.terms
    head = {"campaign": terms.name, "seed": terms.seed, "asked_for": terms.runs, "actions": list(terms.actions)}
    return document(campaign.baseline, outcomes, campaign.shrunk, campaign.replay, campaign.interrupted, **head)


def _head(asked: JobTemplate, terms: CampaignSettings) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "campaign": terms.name,
        "state": RUNNING,
        "problem": "",
        "begun": time.time(),
        "ended": None,
        "command": _command(asked, terms),
        "cwd": str(Path.cwd()),
        "seed": terms.seed,
        "asked_for": terms.runs,
        "used": list(terms.actions),
        "rate": terms.rate,
        "parallel": terms.parallel,
        "metric": terms.measure.name,
        "tolerance": terms.measure.tolerance,
        "job": wire.encode(without_secrets(asked.job)),
    }


def _command(asked: JobTemplate, terms: CampaignSettings) -> str:
    """Return the command that repeats the campaign. Like `JobTemplate.command`, it contains no secrets."""
    own = [f"--runs={terms.runs}", f"--actions={','.join(terms.actions)}", f"--rate={terms.rate:g}"]
    own += [] if terms.measure.name is None else [f"--metric={terms.measure.name}"]
    own += [] if terms.measure.tolerance is None else [f"--tolerance={terms.measure.tolerance:g}"]
    own += ["--fail-fast"] * terms.fail_fast + ["--keep"] * terms.keep
    return asked.with_changes({"seed": terms.seed}, "run_id").command("chaos", *own)

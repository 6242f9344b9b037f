"""The runner of campaigns, without runs: when it stops."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

import pytest

from clusterkit.chaos.model import Baseline, Outcome, Trial
from clusterkit.chaos.runner import Campaign, CampaignSettings
from clusterkit.chaos.schedule import Plan
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, TaskType

KILLS = (FaultAction.KILL,)
PLAN = Plan(JobSpec(Program(ProgramKind.SCRIPT, "train.py"), {TaskType.WORKER: 1}), Baseline(1.0, 100), KILLS)
DEADLINE = 20.0  # seconds


class Stopped(Exception):
    """What the handler of the signal raises."""


class OneOfTwo:
    """Trials of which the first ends at once, and the second when they are stopped."""

    stopped = False
    in_time = False

    def __init__(self) -> None:
        self._first_is_known, self._stop = threading.Event(), threading.Event()

    def run(self, trial: Trial, baseline: Baseline) -> Outcome:
        """Signal this thread, so that the main thread, which is to run the handler, does not wake from its wait."""
        if trial.number == 2:
            self._first_is_known.wait(DEADLINE)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            self.in_time = self._stop.wait(DEADLINE)
        return Outcome(trial, f"mine-{trial.number}", "", baseline.duration, (), (), ())

    def known(self, outcome: Outcome) -> None:
        """The main thread knows of the first one, and is about to wait for the second."""
        self._first_is_known.set()

    def stop(self) -> None:
        """End all runs."""
        self.stopped = True
        self._stop.set()


def test_a_signal_that_does_not_end_the_wait_for_a_run_stops_the_campaign() -> None:
    """As one that comes just before the wait; the run is stopped, not waited for."""

    def stop(_: int, __: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        trials: Any = OneOfTwo()
        with pytest.raises(Stopped):
            list(map(trials.known, Campaign(CampaignSettings("mine", 2, 7, KILLS, 1.0, 2, 0), trials, PLAN).run()))
        assert trials.in_time
    finally:
        signal.signal(signal.SIGUSR1, before)

"""What ended a job, by what a real Slurm said of it: samples.jsonl, which recording.py recorded on the test cluster."""

from __future__ import annotations

import json
import random
import string
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from clusterkit.engines.slurm.answers import QueuedJob, parse_queue
from clusterkit.engines.slurm.reasons import EndCause, why_ended, why_warned

ENDS = {
    "exited": EndCause.ITSELF,
    "cancelled": EndCause.CANCELLED,
    "requeued": EndCause.REQUEUED,
    "preempted": EndCause.PREEMPTION,
    "preempted, requeued": EndCause.PREEMPTION,
    "host lost": EndCause.HOST_LOST,
    "host lost, requeued": EndCause.HOST_LOST,
    "time limit": EndCause.TIME_LIMIT,
}
WARNING = 50  # seconds, of the job with the time limit
RUNNING = QueuedJob(7, "RUNNING", 0, 1000, 5000, None, 4000, "n1", "")


class Sample(NamedTuple):
    """What Slurm said of a job `at` a moment: while it ran, when a signal came, or at its end."""

    what: str
    at: str
    restarts: int
    now: int
    squeue: str
    log: str

    @property
    def job(self) -> QueuedJob:
        """The job."""
        (job,) = parse_queue(self.squeue).values()
        return job


LINES = (Path(__file__).parent / "samples.jsonl").read_text().splitlines()
SAMPLES = [Sample(**json.loads(line)) for line in LINES]


def named(sample: Sample) -> str:
    """A sample's name in a test's id."""
    return f"{sample.what} at {sample.at}"


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.at in ("TERM", "end")], ids=named)
def test_what_ended_a_job_is_known(sample: Sample) -> None:
    """When its batch script gets SIGTERM, and for good; a preemption is not taken for a time limit, nor the reverse."""
    assert why_ended(sample.job, sample.restarts, sample.log) is ENDS[sample.what]


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.at in ("TERM", "end")], ids=named)
def test_without_the_log_nothing_wrong_is_said(sample: Sample) -> None:
    """Then a requeue is all that is known of a job that waits again."""
    assert why_ended(sample.job, sample.restarts) in (ENDS[sample.what], EndCause.REQUEUED)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.at in ("begins", "grace", "USR1")], ids=named)
def test_what_a_warning_means_is_known(sample: Sample) -> None:
    """While the job runs: a preemption has been decided, or the time limit is near, or neither."""
    expected = {"begins": EndCause.UNKNOWN, "grace": EndCause.PREEMPTION, "USR1": EndCause.TIME_LIMIT}[sample.at]
    if sample.what == "time limit":
        expected = EndCause.TIME_LIMIT  # it has a minute in all
    assert why_warned(sample.job, sample.now, WARNING) is expected


def test_every_end_is_in_the_samples() -> None:
    """At each moment that a run has to know it."""
    assert {sample.what for sample in SAMPLES} == set(ENDS)
    assert {sample.at for sample in SAMPLES} == {"begins", "grace", "USR1", "TERM", "end"}


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ("OUT_OF_MEMORY", EndCause.MEMORY),
        ("DEADLINE", EndCause.TIME_LIMIT),
        ("BOOT_FAIL", EndCause.HOST_LOST),
        ("REVOKED", EndCause.CANCELLED),
        ("A_STATE_OF_TOMORROW", EndCause.UNKNOWN),
    ],
)
def test_states_that_the_test_cluster_can_not_reach(state: str, end: EndCause) -> None:
    """By their documentation."""
    assert why_ended(replace(RUNNING, state=state), 0) is end


def test_a_warning_far_from_the_limit_is_something_else() -> None:
    """Somebody's `scancel --signal`."""
    assert why_warned(RUNNING, 1000, 120) is EndCause.UNKNOWN
    assert why_warned(RUNNING, 4821, 120) is EndCause.TIME_LIMIT
    assert why_warned(replace(RUNNING, end=None), 4990, 120) is EndCause.UNKNOWN


def test_of_several_ends_in_a_log_the_last_one_counts() -> None:
    """A job that was requeued appends to its log; lines of steps and of other jobs say nothing of it."""
    line = "slurmstepd-n1: error: *** {what} ON n1 CANCELLED AT 2026-11-22T13:31:29{why} ***"
    log = "\n".join((
        line.format(what="JOB 7", why=" DUE TO TIME LIMIT"),
        line.format(what="JOB 7", why=" DUE TO PREEMPTION"),
        line.format(what="JOB 77", why=""),
        line.format(what="STEP 7.0", why=" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
        "a task prints " + line.format(what="JOB 7", why=" DUE TO TIME LIMIT"),
    ))  # fmt: skip
    ending = replace(RUNNING, state="COMPLETING")
    assert why_ended(ending, 0, log) is EndCause.PREEMPTION
    assert why_ended(ending, 0, line.format(what="JOB 7", why=" DUE TO REASONS")) is EndCause.UNKNOWN
    assert why_ended(ending, 0, "") is EndCause.CANCELLED


def test_no_log_confuses_it() -> None:
    """Whatever the tasks print; in time that grows with its length."""
    chance = random.Random(seed := random.randrange(2**32))
    print(f"the seed is {seed}")
    pieces = [
        "slurmstepd: error: *** JOB 7 ON ",
        "n1",
        " CANCELLED AT ",
        " DUE TO ",
        "TIME LIMIT",
        " ***",
        "\n",
        "A" * 300,
    ]
    for _ in range(3000):
        log = "".join(chance.choices([*pieces, *string.printable], k=30))
        assert isinstance(why_ended(RUNNING, 0, log), EndCause)
    assert why_ended(RUNNING, 0, pieces[0] * 200_000) is EndCause.UNKNOWN

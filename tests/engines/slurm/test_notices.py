"""What a signal means to a run in a job of Slurm's, by what Slurm says of the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.engines.slurm.answers import QueuedJob
from clusterkit.engines.slurm.reasons import LEAST, notice

USR1, TERM, INT, URG = 10, 15, 2, 23
NOW = 1000.0
RUNNING = QueuedJob(7, "RUNNING", 0, 900, 5000, None, 3600, "n1", "")
NEAR = replace(RUNNING, end=1110)
ENDING = replace(RUNNING, state="COMPLETING", end=1000)


@pytest.mark.parametrize(
    ("job", "signal", "why"),
    [
        (NEAR, USR1, "its time limit is reached"),
        (NEAR, URG, "its time limit is reached"),
        (RUNNING, USR1, "its time limit is reached"),  # `--signal` with another time
        (replace(RUNNING, preempted=999), USR1, "a job of higher priority takes its hosts"),
        (replace(RUNNING, preempted=999), TERM, "a job of higher priority takes its hosts"),
        (replace(ENDING, preempted=999), TERM, "a job of higher priority takes its hosts"),
        (replace(ENDING, reason="TimeLimit"), TERM, "its time limit is reached"),
        (replace(ENDING, restarts=1), TERM, "it was requeued"),
        (None, TERM, "Slurm does not say why"),
        (None, URG, "its time limit is reached"),
    ],
)
def test_the_allocation_ends(job: QueuedJob | None, signal: int, why: str) -> None:
    """And the run continues in the next one."""
    found = notice(job, signal, 0, NOW)
    assert found is not None
    assert found.why == why
    assert found.grace >= LEAST


@pytest.mark.parametrize("job", [RUNNING, NEAR, ENDING, replace(ENDING, state="CANCELLED")])
def test_somebody_ends_the_run(job: QueuedJob) -> None:
    """By `scancel`, or by a signal to the batch script alone, which may come late by chance."""
    assert notice(job, TERM, 0, NOW) is None


def test_a_second_start_is_requeued_only_by_a_second_requeue() -> None:
    """Slurm counts them all."""
    assert notice(replace(ENDING, restarts=1), TERM, 1, NOW) is None
    assert notice(replace(ENDING, restarts=2), TERM, 1, NOW) is not None


def test_the_tasks_have_the_time_that_there_is() -> None:
    """But for what has to be done when they have ended."""
    found = notice(NEAR, USR1, 0, NOW)
    assert found is not None
    assert found.grace == 90.0

"""Tests of train.py on a real cluster. Run them with: pytest"""

import pytest

STEPS = 5 * 64  # epochs times steps in each


@pytest.mark.cluster(file="job.toml")
def test_it_trains(cluster):
    """Training ends at the last step, without a restart."""
    result = cluster().wait()
    assert result.last_step == STEPS
    assert result.restarts == 0


@pytest.mark.cluster(file="job.toml")
def test_it_recovers(cluster):
    """A worker is killed; training resumes from a backup, and ends at the same step."""
    result = cluster(fault="kill worker:1 @ step=100").wait()
    assert result.restarts == 1
    assert result.last_step == STEPS


@pytest.mark.cluster(file="job.toml")
def test_it_is_right(cluster):
    """Two workers compute what one does, and a job that was stopped or killed continues where it was."""
    report = cluster.exam(chapters=["equality", "resume"], budget="5m")
    assert report.ok, report.why

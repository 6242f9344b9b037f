"""A run on Slurm over several allocations: time limit, preemption, requeue, the loss of its supervisor's host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.slurm.runs import BRISK, GANG, LONG, MIMIC, PS, QUICK, SlurmUp, Start
from tests.engines.slurm_cluster import SlurmCluster
from tests.support import CHILDREN, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(240)]


def continued(run: SlurmUp, steps: int = 600) -> None:
    """The run is one: its journal, its attempts and its steps go on over its allocations."""
    allocations = [event["allocation"] for event in run.events("Continued")]
    assert allocations == list(range(2, 2 + len(allocations)))
    assert allocations
    result = run.run.result()
    assert result is not None
    assert result.last_step == steps
    mine = [attempt.attempt for attempt in result.attempts if str(attempt.task) == "worker:1"]
    assert mine == list(range(1, 1 + len(mine)))
    assert len(mine) > len(allocations)
    for resumed in run.events("Resumed"):
        saved = [event["step"] for event in run.events("Checkpointed") if event["attempt"] < resumed["attempt"]]
        assert resumed["step"] >= max(saved, default=0)


def test_a_requeued_job_is_the_same_run(up: Start, slurm: SlurmCluster) -> None:
    """Whoever requeues it: the tasks end, the job waits, and the run continues from its checkpoint."""
    run = up(*PS, *BRISK, MIMIC, *LONG)
    run.wait_for("Checkpointed", count=2)
    slurm.run("scontrol", "requeue", run.job)
    assert run.wait(120) == 0, run.output
    assert "The allocation ends: it was requeued. The run continues in the next one." in run.output, run.output
    assert " waits again: " in run.output, run.output
    continued(run)


def test_a_preempted_run_continues_when_there_are_hosts_again(up: Start, slurm: SlurmCluster) -> None:
    """The other job gets its hosts within the grace time."""
    run = up(*GANG, *BRISK, MIMIC, *LONG)
    run.wait_for("Checkpointed", count=2)
    other = slurm.submit("exec sleep 8", "--partition=urgent", "--nodes=3", "--exclusive")
    slurm.wait_state(other, "RUNNING", deadline=40)
    assert run.events("Finished")[0]["result"]["state"] == "suspended"
    assert run.wait(150) == 0, run.output
    assert "The allocation ends: a job of higher priority takes its hosts." in run.output, run.output
    continued(run)


@pytest.mark.tensorflow
def test_tensorflows_own_preemption_handler_saves_before_the_allocation_ends(up: Start, slurm: SlurmCluster) -> None:
    """Both workers save the same step and exit with 42; in the next allocation they continue exactly there."""
    run = up("--workers", "2", "--hosts", "2", *BRISK, CHILDREN / "preempted.py")
    run.wait_for("Progressed", 120, count=4)
    slurm.run("scontrol", "requeue", run.job)
    assert run.wait(200) == 0, run.output[-4000:]
    result = run.run.result()
    assert result is not None
    saved = {str(one.task): one for one in result.attempts if one.attempt == 1}
    assert {str(one.exit) for one in saved.values()} == {"stopped: its allocation had ended (exit code 42)"}
    resumed = {event["task"]: event["step"] for event in run.events("Resumed") if event["attempt"] == 2}
    steps = {one.last_step for one in saved.values()}
    assert len(resumed) == 2
    assert len(set(resumed.values())) == 1
    assert resumed["worker:0"] >= max(step for step in steps if step is not None) > 0
    assert result.last_step == resumed["worker:0"] + 30
    continued(run, resumed["worker:0"] + 30)


def test_a_run_that_meets_its_time_limit_continues(up: Start, slurm: SlurmCluster, tmp_path: Path) -> None:
    """With one of a minute, the warning comes when Slurm looks next."""
    end = tmp_path / "end"
    run = up(*PS, *BRISK, "--time", "10m", MIMIC, *LONG, "--gate", f"600:{end}")
    run.wait_for("Checkpointed")
    slurm.run("scontrol", "update", f"JobId={run.job}", "TimeLimit=1")
    slurm.wait_state(int(run.job), "PENDING", deadline=90)
    slurm.run("scontrol", "update", f"JobId={run.job}", "TimeLimit=10")
    end.touch()
    assert run.wait(120) == 0, run.output
    assert "The allocation ends: its time limit is reached." in run.output, run.output
    continued(run)


def test_a_run_that_loses_the_host_of_its_supervisor_continues(up: Start, slurm: SlurmCluster) -> None:
    """An agent on another host has the job requeued; it waits for the host."""
    run = up(*PS, *QUICK, MIMIC, *LONG)
    run.wait_for("Checkpointed", count=2)
    slurm.hosts["n1"].kill()
    wait_until(lambda: " waits again: " in run.output, 60, lambda: run.output)
    slurm.hosts["n1"].start()
    assert run.wait(150) == 0, run.output
    continued(run)


def test_who_follows_a_run_follows_it_into_its_next_allocation(up: Start, slurm: SlurmCluster) -> None:
    """`wait`, `attach` and `logs -f` end with the run, and spare a job that nobody else follows its two minutes."""
    run = up("-d", *PS, *BRISK, MIMIC, *LONG)
    assert run.wait(30) == 0, run.output
    run.wait_for("Checkpointed", count=2)
    followers = {words: run.beside(*words) for words in (("wait", "r-1"), ("attach", "r-1"), ("logs", "-f", "r-1"))}
    run.wait_for("Checkpointed", count=len(run.events("Checkpointed")) + 3)
    slurm.run("scontrol", "requeue", run.job)
    codes = {words: one.wait(100) for words, one in followers.items()}
    assert set(codes.values()) == {0}, {words: one.output[-2000:] for words, one in followers.items()}
    assert "succeeded" in followers["wait", "r-1"].output
    assert "The run continues in allocation 2." in followers["attach", "r-1"].output
    assert "✔ run r-1 succeeded" in followers["attach", "r-1"].output
    assert "chief:0 is done" in followers["logs", "-f", "r-1"].output
    continued(run)

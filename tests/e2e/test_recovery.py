"""The recovery table with real TensorFlow: what is killed, what restarts, where training goes on."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import WORKLOADS, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.both_starts, pytest.mark.timeout(240)]
cold_too = pytest.mark.cold_too
matrix = pytest.mark.matrix

PS_JOB = ("--workers", "2", "--ps", "1", WORKLOADS / "ps_train.py", "--checkpoint-every", "40", "--step-time", "0.02")
GANG = ("--workers", "2", WORKLOADS / "mwms_train.py", "--checkpoint-every", "20", "--step-time", "0.03")
PATIENCE = 200.0
Start = Callable[..., Up]


def check_recovered(run: Up, restarted: dict[str, int], steps: int) -> None:
    """Exactly these tasks were started that often, every resumption was at the newest checkpoint, nothing is lost."""
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    started = {task: len(pids) for task, pids in run.pids().items()}
    expected = dict.fromkeys(started, 1) | restarted
    assert started == expected, run.output[-6000:]
    assert run.result["last_step"] == steps
    check_resumptions(run)
    accuracy = re.findall(r"held-out accuracy (\d\.\d+)", run.output)
    assert accuracy
    assert float(accuracy[-1]) > 0.5  # a short training; what it reaches at length is the demo's to show


def check_resumptions(run: Up) -> None:
    """A restarted training task resumed at the checkpoint that was the newest when it was started."""
    newest: dict[str, Any] | None = None
    at_start: dict[tuple[str, int], int] = {}
    for event in run.events():
        if event["event"] == "Checkpointed":
            newest = event
        elif event["event"] == "Spawned" and newest is not None:
            at_start[event["task"], event["attempt"]] = newest["step"]
        elif event["event"] == "Resumed" and event["attempt"] > 1:
            assert event["step"] == at_start.get((event["task"], event["attempt"]), 0)


@pytest.mark.parametrize(
    ("victim", "restarted"),
    [
        ("worker:0", {"worker:0": 2}),
        pytest.param("worker:1", {"worker:1": 2}, marks=[cold_too, matrix]),
        pytest.param("chief:0", {"chief:0": 2}, marks=matrix),
        pytest.param("ps:0", {"ps:0": 2, "chief:0": 2}, marks=[cold_too, matrix]),
    ],
)
def test_a_parameter_server_job_survives_sigkill_of(up: Start, victim: str, restarted: dict[str, int]) -> None:
    """The victim's row restarts, the pids of the others stay, and training resumes and ends where it should."""
    run = up(*PS_JOB, "--steps", "400")
    run.wait_for("Checkpointed", deadline=90)
    run.kill(victim)
    check_recovered(run, restarted, 400)
    if "chief:0" in restarted:
        assert run.events("Resumed", task="chief:0", attempt=2)[0]["step"] > 0
    assert run.events("Failed")[0]["failure"]["task"] == victim


@pytest.mark.parametrize("victim", [pytest.param("worker:0", marks=[cold_too, matrix]), "worker:1"])
def test_a_multi_worker_job_survives_sigkill_of(up: Start, victim: str) -> None:
    """The whole gang restarts, resumes at one checkpoint, and every worker ends with the same weights."""
    run = up(*GANG, "--steps", "150")
    run.wait_for("Checkpointed", deadline=90)
    run.kill(victim)
    check_recovered(run, {"worker:0": 2, "worker:1": 2}, 150)
    planned = run.events("RestartPlanned")
    assert [event["cause"]["task"] for event in planned] == [victim]
    digests = re.findall(r"weights digest (sha256:\w+)", run.output)
    assert len(digests) == 2
    assert len(set(digests)) == 1


def test_two_faults_in_a_row(up: Start) -> None:
    """A ps dies; when training goes on, a worker does."""
    run = up(*PS_JOB, "--steps", "500")
    run.wait_for("Checkpointed", deadline=90)
    run.kill("ps:0")
    again = run.wait_for("Resumed", deadline=90, task="chief:0", attempt=2)
    run.wait_for_step(again["step"] + 20, after=again["m"])
    run.kill("worker:1")
    check_recovered(run, {"ps:0": 2, "chief:0": 2, "worker:1": 2}, 500)


def test_a_fault_during_a_recovery(up: Start) -> None:
    """The chief dies again while it is coming back from the death of the ps."""
    run = up(*PS_JOB, "--steps", "400")
    run.wait_for("Checkpointed", deadline=90)
    run.kill("ps:0")
    run.wait_for("Spawned", deadline=60, task="chief:0", attempt=2)
    run.kill("chief:0")
    check_recovered(run, {"ps:0": 2, "chief:0": 3}, 400)


def test_a_fault_of_the_gang_during_its_recovery(up: Start) -> None:
    """A worker of the second gang dies before it has trained a step; the third one finishes."""
    run = up(*GANG, "--steps", "120")
    run.wait_for("Checkpointed", deadline=90)
    run.kill("worker:1")
    run.wait_for("Spawned", deadline=60, task="worker:0", attempt=2)
    run.kill("worker:0")
    check_recovered(run, {"worker:0": 3, "worker:1": 3}, 120)


@cold_too
@matrix
def test_preemption_of_the_gang_costs_no_restart(up: Start) -> None:
    """TensorFlow's preemption handler checkpoints and exits with 42: the gang starts again, uncharged."""
    preempted = WORKLOADS.parent / "tests" / "children" / "preempted.py"
    run = up("--workers", "2", "--restart-budget", "0", preempted)
    run.wait_for_step(10, deadline=90)
    run.kill("worker:1", signal.SIGTERM)
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert {task: len(pids) for task, pids in run.pids().items()} == {"worker:0": 2, "worker:1": 2}
    assert run.events("RestartPlanned")[0]["cause"]["exit"]["code"] == 42
    resumed = [event["step"] for event in run.events("Resumed", attempt=2)]
    assert len(resumed) == 2
    assert min(resumed) >= 10
    assert run.result["last_step"] == 60

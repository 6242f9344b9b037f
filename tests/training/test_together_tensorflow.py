"""clusterkit.training in clusters: workers in step and their evaluator, and Keras's fit on both kinds of cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import WORKLOADS, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]

CHILDREN = WORKLOADS.parent / "tests" / "children"
PATIENCE = 200.0
Start = Callable[..., Up]


def told(run: Up, task: str, attempt: int = 1) -> list[dict[str, Any]]:
    """The lines of JSON that an attempt printed."""
    lines = run.log(task, attempt).decode().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def ended(run: Up, task: str) -> list[int | None]:
    """The exit codes of a task's attempts."""
    return [event["exit"]["code"] for event in run.events("Exited", task=task)]


def test_workers_in_step_and_their_evaluator(up: Start) -> None:
    """On SIGTERM all save the same step and resume there at no cost; the chief exports; the evaluator ends."""
    run = up("--workers", "2", "--evaluator", "--restart-budget", "0", CHILDREN / "gang.py")
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert {task: ended(run, task) for task in ("worker:0", "worker:1")} == {f"worker:{n}": [42, 0] for n in (0, 1)}
    resumed = {event["step"] for event in run.events("Resumed", attempt=2)}
    assert len(resumed) == 1
    assert min(resumed) in range(20, 25)
    (first,), (second,) = told(run, "worker:0", 2), told(run, "worker:1", 2)
    assert first["strategy"] == "CollectiveAllReduceStrategy"
    assert [told["total"] for told in (first, second)] == [40.0, 40.0]
    assert sorted(first["numbers"] + second["numbers"]) == list(range(8))
    assert (first["part"], first["rate"]) == (4, pytest.approx(0.2))
    exported = [run.run / "export" / name for name in ("model.keras", "model")]
    assert first["exported"] == [str(path) for path in exported]
    assert second["exported"] == [None, None]
    assert sorted((run.run / "export").iterdir()) == sorted(exported)
    looks = told(run, "evaluator:0")
    assert [look["evaluated"] for look in looks] == [*sorted(resumed), 40]
    assert all(look["evaluated"] == look["total"] for look in looks)
    assert ended(run, "evaluator:0") == [0]


@pytest.mark.long
def test_a_fit_of_workers_in_step(up: Start) -> None:
    """After a kill and a SIGTERM within an epoch, the weights equal those of an undisturbed fit."""
    run = up("--workers", "2", CHILDREN / "gang_fit.py")
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert ended(run, "worker:1") == [None, 42, 0], run.output[-6000:]
    steps = [{event["step"] for event in run.events("Resumed", attempt=attempt)} for attempt in (1, 2, 3)]
    assert steps[:2] == [{0}, {16}]
    assert steps[2] <= set(range(22, 26))
    for task in ("worker:0", "worker:1"):
        assert told(run, task, 3) == [{"step": 40, "same": True}]


@pytest.mark.long
def test_a_fit_with_parameter_servers(up: Start) -> None:
    """With Keras 2, a killed coordinator resumes after the last complete epoch."""
    pytest.importorskip("tf_keras")
    program = CHILDREN / "ps_fit_waits.py"
    run = up("--workers", "2", "--ps", "1", "--keras", "2", program, "--epochs", "4", "--steps", "40")
    run.wait_for("Checkpointed", 120, step=80)
    run.kill("chief:0", signal.SIGKILL)
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert {task: len(pids) for task, pids in run.pids().items()} == {
        "chief:0": 2,
        "worker:0": 1,
        "worker:1": 1,
        "ps:0": 1,
    }
    assert [event["step"] for event in run.events("Checkpointed", attempt=1)] == [40, 80]
    assert [event["step"] for event in run.events("Resumed")] == [0, 80]
    assert run.result["last_step"] == 160

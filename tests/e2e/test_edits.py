"""`up --watch` with real TensorFlow: a module is edited, and the job trains on with it from its checkpoint."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import WORKLOADS, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]

PATIENCE = 120.0
ARGS = ("--steps", "1000000", "--step-time", "0.02", "--checkpoint-every", "20")
Start = Callable[..., Up]


@pytest.mark.parametrize(
    ("flags", "program", "leader"),
    [
        pytest.param(("--workers", "2", "--ps", "1"), "ps_train.py", "chief:0", id="parameter server"),
        pytest.param(("--workers", "2"), "mwms_train.py", "worker:0", id="gang", marks=pytest.mark.long),
    ],
)
def test_a_module_is_edited(up: Start, tmp_path: Path, flags: tuple[str, ...], program: str, leader: str) -> None:
    """Every task runs the new one, forked as before, and training goes on where the checkpoint is."""
    shutil.copytree(WORKLOADS, tmp_path / "job", ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "job" / "digits.py"
    run = up(*flags, "--watch", tmp_path / "job" / program, *ARGS)
    run.wait_for("Checkpointed", PATIENCE)
    run.wait_for_step(25, PATIENCE)
    edited = tmp_path / "edited.py"
    edited.write_text(module.read_text() + 'print("edited digits", flush=True)\n')
    edited.replace(module)
    trains = run.wait_for("EditTrains", PATIENCE)
    resumed = run.wait_for("Resumed", PATIENCE, task=leader, attempt=2)
    assert resumed["step"] >= 20
    assert trains["step"] > resumed["step"]
    starts = {event["task"]: event["forked"] for event in run.events("Spawned", attempt=2)}
    first = {event["task"]: event["forked"] for event in run.events("Spawned", attempt=1)}
    assert starts == first
    (planned,) = run.events("RestartPlanned")
    assert (planned["files"], planned["cause"], planned["charged"]) == (["digits.py"], None, 0)
    run.signal(signal.SIGINT)
    assert run.wait(60) == 130
    assert b"edited digits" in run.log(leader, 2)  # which is complete now
    assert b"edited digits" not in run.log(leader, 1)
    assert f"digits.py changed: restarting all tasks from the checkpoint of step {planned['step']}." in run.output

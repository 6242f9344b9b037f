"""Fewer workers, with real TensorFlow: who is left trains on from the checkpoint, as a job of that size would."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, WORKLOADS, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]
PATIENCE = 150.0
Start = Callable[..., Up]
SHORT = ("--steps", "60", "--checkpoint-every", "20", "--warmup-steps", "40")
GANG = (WORKLOADS / "mwms_train.py", *SHORT, "--step-time", "0.05")
PS = ("--workers", "3", "--ps", "1", "--min-workers", "2")
PROGRAM = (WORKLOADS / "ps_train.py", "--checkpoint-every", "50", "--step-time", "0.03")


def waiting(task: str, where: str) -> tuple[object, ...]:
    """The begin of a command whose program waits in one task. TensorFlow is warm, which waits.py does not import."""
    return "--start", "warm", CHILDREN / "waits.py", task, where


def digests(run: Up) -> set[str]:
    """The weights that the workers ended with."""
    return set(re.findall(r"weights digest (sha256:\w+)", run.output))


@pytest.mark.long
def test_a_gang_of_four_ends_as_one_of_three_that_begins_at_its_checkpoint(up: Start, tmp_path: Path) -> None:
    """The same weights, bit for bit: input shards, batches and learning rate are those of three workers."""
    # It is killed once the checkpoint of step 20 is complete, at step 30 at the latest, where all wait for it.
    lossy = ("--min-workers", "2", "--restart-budget", "0", "--fault", "kill worker:1 @ checkpoint")
    run = up("--workers", "4", *lossy, *waiting("worker:1", "30:end"), *GANG)
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    result = run.result
    assert (result["given_up"], result["last_step"], result["restarts"]) == (["worker:1"], 60, 1)
    assert {event["step"] for event in run.events("Resumed") if event["attempt"] > 1} == {20}
    assert run.output.count("training from step 20 to 60 on 3 workers") == 3
    shutil.copytree(run.run / "checkpoints" / "ckpt-20", tmp_path / "ckpt-20")
    other = up("--workers", "3", "--checkpoint-dir", tmp_path, *GANG)
    assert other.wait(PATIENCE) == 0, other.output[-6000:]
    assert other.output.count("training from step 20 to 60 on 3 workers") == 3
    assert len(digests(run)) == 1
    assert digests(run) == digests(other)


def test_a_coordinator_trains_on_and_ends_without_a_worker(up: Start) -> None:
    """It does not wait for the one that never comes back, also not at its end, and whatever its program is."""
    run = up(*PS, "--restart-budget", "0", "--progress-regex", '"step": (\\d+)', CHILDREN / "facts_end.py")
    run.wait_for_step(100, PATIENCE)
    run.kill("worker:1")
    shrunk = run.wait_for("Shrunk")
    run.wait_for_step(101, PATIENCE, after=shrunk["m"] + 2)
    (run.run / "go").touch()
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert (run.result["given_up"], run.events("RestartPlanned")) == (["worker:1"], [])


@pytest.mark.long
def test_a_coordinator_that_is_killed_later_begins_without_the_worker(up: Start) -> None:
    """It uses both that are left, whose servers still know the cluster of three."""
    faults = ("kill worker:1 @ step=40", "kill worker:1 @ step=100", "kill chief @ checkpoint=3")
    asked = [word for fault in faults for word in ("--fault", fault)]
    held = waiting("chief:0", "40:Failed,100:Shrunk,170:end")  # for what comes of each fault
    run = up(*PS, "--restart-budget", "1", *asked, *held, *PROGRAM, "--steps", "300")
    assert run.wait(PATIENCE) == 0, run.output[-6000:]
    assert (run.result["given_up"], run.result["last_step"]) == (["worker:1"], 300)
    starts = Counter(event["task"] for event in run.events("Spawned"))
    assert starts == {"chief:0": 2, "worker:0": 1, "worker:1": 2, "worker:2": 1, "ps:0": 1}
    assert re.search(r"training from step 150 to 300 on 2 workers", run.output)
    last = run.events("StepsTimed", task="chief:0", attempt=2)
    used = {name for event in last for name in event["workers"]}
    assert used == {"worker:0", "worker:1"}, "TensorFlow counts from 0"

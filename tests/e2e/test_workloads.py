"""The workloads as their users run them, with real TensorFlow."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.environment import clean_environment
from tests.support import CHILDREN, WORKLOADS, Up
from tests.task.test_keras_tensorflow import NO_OPTIMIZERS

pytestmark = [pytest.mark.tensorflow, pytest.mark.both_starts, pytest.mark.timeout(240)]
cold_too = pytest.mark.cold_too
Start = Callable[..., Up]


def accuracy(output: str) -> float:
    """The held-out accuracy that was printed last."""
    return float(re.findall(r"held-out accuracy (\d\.\d+)", output)[-1])


@pytest.mark.matrix
def test_the_main_job_reaches_its_accuracy(up: Start) -> None:
    """What `make demo` runs: chief, two workers and a parameter server on real digits, without a restart."""
    run = up("--workers", "2", "--ps", "1", WORKLOADS / "ps_train.py")
    assert run.wait(200) == 0, run.output[-4000:]
    assert accuracy(run.output) >= 0.93
    assert run.result["restarts"] == 0
    assert {task: len(pids) for task, pids in run.pids().items()} == {
        "chief:0": 1,
        "worker:0": 1,
        "worker:1": 1,
        "ps:0": 1,
    }


@pytest.mark.skipif(NO_OPTIMIZERS, reason="an optimizer of so old a Keras is refused on several workers")
@pytest.mark.parametrize(
    "workers", [pytest.param(2, marks=[cold_too, pytest.mark.matrix]), pytest.param(4, marks=pytest.mark.soak)]
)
def test_all_workers_end_with_the_same_weights(up: Start, workers: int) -> None:
    """MultiWorkerMirroredStrategy keeps its replicas equal; each worker prints the digest of its weights."""
    run = up("--workers", workers, WORKLOADS / "mwms_train.py", "--steps", "300")
    assert run.wait(200) == 0, run.output[-4000:]
    digests = re.findall(r"weights digest (sha256:\w+)", run.output)
    assert len(digests) == workers
    assert len(set(digests)) == 1
    assert accuracy(run.output) > 0.8


@pytest.mark.parametrize("workload", ["ps_train.py", pytest.param("mwms_train.py", marks=pytest.mark.long)])
def test_the_same_program_runs_without_a_cluster(tmp_path: Path, workload: str) -> None:
    """Under plain python a workload is one process that trains in the same way."""
    done = subprocess.run(
        [sys.executable, str(WORKLOADS / workload), "--steps", "200", "--checkpoint-every", "1000"],
        capture_output=True,
        text=True,
        timeout=200,
        env=clean_environment(tmp_path),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert accuracy(done.stdout) > 0.8


def test_a_gang_with_one_bad_worker_blames_that_one(up: Start) -> None:
    """TensorFlow's survivor fails of its peer, often before the peer is gone; the peer is the cause all the same."""
    run = up("--workers", "2", "--restart-budget", "1", "--restart-backoff", "0.1", CHILDREN / "raises.py")
    assert run.wait(200) == 1
    assert run.result["cause"]["task"] == "worker:1"
    assert run.result["cause"]["exception"] == "RuntimeError: a planted fault in worker:1"
    assert [failure["task"] for failure in run.result["collateral"]] in ([], ["worker:0"])
    block = run.output.partition("Cause: ")[2]
    assert block.startswith("worker:1 exited with code 1 (attempt 2)")
    assert "RuntimeError: a planted fault in worker:1" in block
    assert "│ raises.py:" in block

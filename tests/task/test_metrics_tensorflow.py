"""A curve without a line of code: of `fit`, of a loop that writes for TensorBoard, and of fetched closures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]
CURVES = CHILDREN / "curves.py"


def test_a_fit_on_two_workers(up: Callable[..., Up], tmp_path: Path) -> None:
    """Its final logs are the run's metrics, of the last step, and the report has them."""
    run = up("--workers", "2", CHILDREN / "tutorials/main.py", tmp_path / "model")
    assert run.wait(160) == 0, run.output[-4000:]
    told = [event for event in run.events("Progressed", task="worker:0") if event["metrics"]]
    assert told[-1]["step"] == 20
    assert told[-1]["metrics"] == run.result["metrics"]
    assert {"loss", "accuracy"} <= run.result["metrics"].keys()
    assert "metrics: loss " in run.output


@pytest.mark.long
def test_a_loop_trains_bit_for_bit_what_plain_python_trains(up: Callable[..., Up], tmp_path: Path) -> None:
    """Nothing is traced anew; the last number is the run's, and one of a graph is none."""
    run = up(CURVES, "loop", tmp_path / "board")
    assert run.wait(120) == 0, run.output[-4000:]
    command = [sys.executable, str(CURVES), "loop", str(tmp_path / "plain")]
    plain = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
    (printed,) = re.findall(r"traced \d+ loss (\S+)", plain)
    assert plain.strip() in run.output
    assert (run.result["last_step"], run.result["metrics"]) == (20, {"loss": float(printed)})


def test_closures_that_are_fetched(up: Callable[..., Up]) -> None:
    """By their names, as the program fetched them."""
    run = up("--workers", "1", "--ps", "1", CURVES, "closures")
    assert run.wait(120) == 0, run.output[-4000:]
    (printed,) = re.findall(r"loss (\S+)", run.output.replace("metrics: loss", ""))[:1]
    assert run.result["metrics"] == {"loss": float(printed)}

"""Jobs whose program is a command that starts Python, such as a shell script: they train as the Python program does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]

SCRIPT = """#!/bin/sh
set -e
{python} -c 'print("prepared")'
exec {python} fits.py "$@"
"""
FITS = """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
x = tf.random.stateless_normal((512, 8), seed=[1, 2])
model.fit(x, tf.reduce_sum(x, axis=1), batch_size=64, epochs=4, verbose=0)
"""


def test_the_program_of_a_shell_script_is_patched_and_seen(up: Any, tmp_path: Path) -> None:
    """Its `fit` works on two workers, its steps and metrics are known, and faults come in a phase and at a step."""
    (tmp_path / "fits.py").write_text(FITS)
    script = tmp_path / "train.sh"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    run = up(
        "--workers",
        "2",
        "--fault",
        "kill worker:1 @ phase=starting",
        "--fault",
        "kill worker:1 @ step=12",
        script,
        cwd=tmp_path,
    )
    assert run.wait(180) == 0, run.output
    assert run.log("worker:1", 3).startswith(b"prepared\n")
    assert run.result["last_step"] == 32
    assert {"loss", "mae"} <= run.result["metrics"].keys()
    assert run.result["undistributed"] is None
    assert [recovery["cause"]["task"] for recovery in run.result["recoveries"]] == ["worker:1", "worker:1"]

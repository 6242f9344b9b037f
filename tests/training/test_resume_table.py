"""A broken `fit` that is resumed learns what an unbroken one learns, bit for bit: feature by place of the break."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import CHILDREN, Up
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(OLD_KERAS, reason="fit on several workers is refused with so old a Keras"),
]
PROGRAM = CHILDREN / "resume_table.py"
FEATURES = (
    *("in-order", "arrays", "seeded-dataset", "dataset", "unknown-number", "validation", "normalization"),
    *("dropout", "averages", "schedule", "loss-scale", "accumulation", "several-steps", "rivals"),
    *("batches", "batches-of-workers", "batches-of-shuffled-rows"),
)
BATCHES = FEATURES[-3:]
PLACES = ("1.1", "2.3", "2.5", "between", "saving")  # epoch.batch, of three epochs with five batches
ALONE = tuple(name for name in FEATURES if name != "dataset")  # without a seed one process has another order each time
# Keras's own callback resumes at an epoch's beginning, and only with these bit for bit: docs/keras.md says why.
KERAS = ("in-order", "normalization", "averages", "schedule", "several-steps", "validation")
SMALL, MORE = (
    tuple(f"{feature}/2.5/backup" for feature in features)
    for features in (("unknown-number",), ("dropout", "arrays", "rivals"))
)


def test_random_numbers_of_tensorflow_are_named(tmp_path: Path) -> None:
    """A layer that draws with `tf.random.normal` has other numbers when `fit` is resumed: a notice, and that once."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CLUSTERKIT", "TF_"))}
    words = [sys.executable, str(PROGRAM), str(tmp_path), "noise-of-tensorflow/2.3/backup", "dropout/2.3/backup"]
    done = subprocess.run(words, env=clean, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    noise, dropout = map(json.loads, (tmp_path / "alone").read_text().splitlines())
    assert (
        noise["notices"].count("Backup can't save the state of tf.random operations such as the one in Noise.call") == 1
    )
    assert dropout["notices"] == ""


def every(features: tuple[str, ...], places: tuple[str, ...], callback: str = "backup") -> tuple[str, ...]:
    """The cases of these features and places; a validation can also be broken in its midst."""
    more = (f"validation/validation/{callback}",) if "validation" in features else ()
    return (*(f"{feature}/{place}/{callback}" for feature in features for place in places), *more)


def wrong(lines: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The cases that were not broken, or learned something else."""
    found = [json.loads(line) for line in lines.splitlines()]
    assert [case["case"] for case in found] == list(names)
    return [case for case in found if not case["broken"] or case["apart"] != 0 or case["logs"] > 1e-5]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(SMALL, marks=pytest.mark.matrix, id="a slice"),
        pytest.param(MORE, marks=[pytest.mark.matrix, pytest.mark.long], id="another slice"),
        pytest.param(every(FEATURES, ("2.3",)), marks=pytest.mark.table, id="in an epoch"),
        pytest.param(every(FEATURES, PLACES), marks=pytest.mark.soak, id="everywhere"),
        pytest.param(every(FEATURES, ("2.3", "between"), "backup-by-epochs"), marks=pytest.mark.soak, id="by epochs"),
    ],
)
def test_workers_resume_bit_for_bit(up: Callable[..., Up], tmp_path: Path, names: tuple[str, ...]) -> None:
    """Two workers, each of which has to have the same weights and the same results of the last epoch."""
    run = up("--workers", "2", "--restart", "never", PROGRAM, tmp_path, *names)
    assert run.wait(2000) == 0, run.output[-4000:]
    for worker in ("worker:0", "worker:1"):
        assert wrong((tmp_path / worker).read_text(), names) == []


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(every(("seeded-dataset", "rivals"), ("2.5",)), id="a slice"),
        pytest.param(every(BATCHES, ("2.3", "between")), id="batches"),
        pytest.param(("metrics-in-step/2.5/backup",), id="metrics in a step"),
        pytest.param(every(ALONE, PLACES), marks=[pytest.mark.table, pytest.mark.matrix], id="everywhere"),
        pytest.param(every(ALONE, ("2.3", "between"), "backup-by-epochs"), marks=pytest.mark.soak, id="by epochs"),
        pytest.param(every(KERAS, ("2.3", "between"), "keras"), marks=pytest.mark.table, id="Keras's own"),
    ],
)
def test_one_process_resumes_bit_for_bit(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Under plain python."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CLUSTERKIT", "TF_"))}
    words = [sys.executable, str(PROGRAM), str(tmp_path), *names]
    done = subprocess.run(words, env=clean, cwd=tmp_path, capture_output=True, text=True, timeout=2000, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert wrong((tmp_path / "alone").read_text(), names) == []

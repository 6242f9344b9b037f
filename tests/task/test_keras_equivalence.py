"""Keras 3's `fit` on several workers learns what it learns in one process: the same weights, the same metrics."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.support import CHILDREN, Up
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(OLD_KERAS, reason="fit on several workers is refused with so old a Keras"),
]

PROGRAM = CHILDREN / "keras_fit.py"
TOLERANCE = 1e-5  # measured: 2e-6; sums of 32-bit numbers in another order
SAME = ("dense", "convolution", "normalized_together", "dictionaries", "by_hand")
# Where every replica has statistics of its own rows, one process with two replicas is what two workers are compared
# with; and where some replicas have no rows, nothing is: then the workers have to agree, on numbers.
APART, WITHOUT_ROWS = "normalized_apart", "normalized_without_rows"
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """What a single process learns in these cases."""

    @cache
    def learn(*cases: str) -> Path:
        place = tmp_path_factory.mktemp("reference")
        clean = {name: v for name, v in os.environ.items() if not name.startswith(("CLUSTERKIT", "TF_"))}
        words = [sys.executable, str(PROGRAM), str(place), *cases]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, env=clean, cwd=place)
        assert done.returncode == 0, done.stderr[-4000:]
        assert "clusterkit" not in done.stdout + done.stderr
        return place / "alone"

    return learn


def read(directory: Path, name: str) -> Arrays:
    """What a case gave: each weight, and all that `fit`, `evaluate` and `predict` returned."""
    with np.load(directory / f"{name}.npz") as arrays:
        return dict(arrays)


def differences(first: Path, other: Path, case: str) -> Iterator[str]:
    """Where two differ by more than the order of sums explains, or one is no number."""
    ours, theirs = read(first, case), read(other, case)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if value.shape != theirs[name].shape:
            yield f"{name}: {value.shape} and {theirs[name].shape}"
        elif not np.allclose(value, theirs[name], rtol=TOLERANCE, atol=TOLERANCE):
            yield f"{name}: {np.abs(value - theirs[name]).max():.2g} apart"


@pytest.mark.parametrize(
    ("workers", "cases"),
    [
        (2, SAME[:1]),
        pytest.param(2, (*SAME, APART, WITHOUT_ROWS), marks=[pytest.mark.matrix, pytest.mark.long]),
        # What only several workers without a row can show; the rest is as with two.
        pytest.param(3, SAME[:2], marks=pytest.mark.soak),
        pytest.param(4, SAME[:-1], marks=pytest.mark.soak),
    ],
    ids=["one model, 2 workers", "2 workers", "3 workers", "4 workers"],
)
def test_workers_learn_what_one_process_learns(
    alone: Callable[..., Path], up: Callable[..., Up], tmp_path: Path, workers: int, cases: tuple[str, ...]
) -> None:
    """Of the same seed, rows, order and global batch; every worker, in every case."""
    run = up("--workers", workers, "--restart", "never", PROGRAM, tmp_path / "out", *cases)
    assert run.wait(300) == 0, run.output[-4000:]
    first, *others = sorted((tmp_path / "out").iterdir())
    assert [place.name for place in (first, *others)] == [f"worker:{index}" for index in range(workers)]
    compared = [name for name in cases if name != WITHOUT_ROWS]
    wrong = [f"{name}: {one}" for name in compared for one in differences(alone(*compared), first, name)]
    wrong += [
        f"{name}, {place.name}: {one}" for place in others for name in cases for one in differences(first, place, name)
    ]
    assert wrong == []
    assert run.output.count("clusterkit: patched fit, evaluate and predict of Keras 3") == 1
    assert b"clusterkit: patched" in run.log("worker:0")


@pytest.mark.long
def test_the_cases_are_no_mere_beginnings(alone: Callable[..., Path]) -> None:
    """Each has learnt something, and the callbacks did act."""
    learnt = alone(*SAME, APART)
    for name in (*SAME[:-1], APART):
        losses = read(learnt, name)["loss"]
        assert losses[-1] < 0.97 * losses[0], name
    dense = read(learnt, "dense")
    assert dense["learning_rate"][-1] < dense["learning_rate"][0], "ReduceLROnPlateau has had nothing to do"
    assert dense["batches"] == 4 * len(dense["loss"])
    assert len(dense["loss"]) < 12, "EarlyStopping has had nothing to do"

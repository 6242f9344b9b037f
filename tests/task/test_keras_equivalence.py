"""Keras 3 on several workers has the same weights, metrics and predictions as in one process."""

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
from tests.task.keras_verdicts import LIMITS, SUBJECTS, TOLERANCE, Limit, cases
from tests.task.test_keras_tensorflow import KERAS, OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(3200),
    pytest.mark.skipif(OLD_KERAS, reason="fit on several workers is refused with so old a Keras"),
]

DEADLINE = 1500.0  # seconds for up to 40 trainings in a row, beside other tests on a slow machine
PROGRAM = CHILDREN / "keras_table.py"
# Each was seen to be wrong before it was mended, or stands for a subject.
SLICE = ("mask_of_words_where_a_worker_has_no_row", "rows_of_a_dataset_without_a_seed")
MORE = (
    *("metric_auc", "compile_several_steps", "layers_of_dropout_in_attention_and_recurrence"),
    *("weights_by_weights", "rows_of_arrays_without_a_seed", "step_of_metrics", "loss_one_correlation"),
    *("mixed_float16_where_one_row_overflows", "predictions_of_files", "layer_synchronized_after_a_logarithm"),
)
ALONE, MORE_ALONE = (
    ("rows_of_arrays", "step_of_metrics"),
    ("loss_one_mean", "layer_synchronized", "optimizer_accumulation"),
)
# An activity regularizer adds a sum over rows there, which is weighed as a mean: see the limits of docs/keras.md.
OLD = {"regularizers": Limit("")} if KERAS < (3, 14) else {}
NO_LIMIT = Limit("", tolerance=TOLERANCE)
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The results of a single process in these cases."""

    @cache
    def learn(*names: str) -> Path:
        place = tmp_path_factory.mktemp("reference")
        clean = {name: v for name, v in os.environ.items() if not name.startswith(("CLUSTERKIT", "TF_"))}
        words = [sys.executable, str(PROGRAM), str(place), *names]
        done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, env=clean, cwd=place)
        assert done.returncode == 0, done.stderr[-4000:]
        assert "clusterkit: " not in done.stdout + done.stderr
        return place / "alone"

    return learn


def read(directory: Path, name: str) -> Arrays:
    """The results of a case: each weight, and all that `fit`, `evaluate` and `predict` returned."""
    with np.load(directory / f"{name}.npz") as arrays:
        return dict(arrays)


def differences(first: Path, other: Path, case: str, limit: Limit = NO_LIMIT) -> Iterator[str]:
    """The places where two results differ by more than rounding, or one is not a number."""
    ours, theirs = read(first, case), read(other, case)
    assert ours.keys() == theirs.keys(), f"{case}: {ours.keys() ^ theirs.keys()}"
    for name, value in ours.items():
        allowed = limit.tolerance if name in limit.numbers or not limit.numbers else TOLERANCE
        if value.shape != theirs[name].shape:
            yield f"{case}: {name}: {value.shape} and {theirs[name].shape}"
        elif not np.isfinite(value).all() or not np.all(np.abs(value - theirs[name]) <= allowed * (1 + np.abs(value))):
            yield f"{case}: {name}: {np.abs(value - theirs[name]).max():.2g} apart"


def every(*subjects: str) -> tuple[str, ...]:
    """All cases of these subjects."""
    return tuple(name for subject in subjects for name in cases(subject))


both = [pytest.mark.table, pytest.mark.matrix]  # every version that is claimed runs the table with two workers
whole = [
    pytest.param(workers, every(subject), id=f"{subject}, {workers} workers", marks=both if workers == 2 else both[:1])
    for workers in (2, 3)
    for subject in SUBJECTS
]


@pytest.mark.parametrize(
    ("workers", "names"),
    [
        pytest.param(2, SLICE, marks=pytest.mark.matrix, id="a slice"),
        pytest.param(2, MORE, marks=[pytest.mark.matrix, pytest.mark.long], id="another slice"),
        *whole,
    ],
)
def test_workers_learn_what_one_process_learns(
    alone: Callable[..., Path], up: Callable[..., Up], tmp_path: Path, workers: int, names: tuple[str, ...]
) -> None:
    """With the same seed, rows, order and global batch; every worker, in every case."""
    run = up("--workers", workers, "--restart", "never", PROGRAM, tmp_path / "out", *names)
    assert run.wait(DEADLINE) == 0, run.output[-4000:]
    places = sorted((tmp_path / "out").iterdir())
    assert [place.name for place in places] == [f"worker:{index}" for index in range(workers)]
    reference = alone(*names)
    wrong = [
        f"{place.name}: {one}"
        for place in places
        for name in names
        for one in differences(reference, place, name, LIMITS.get(name) or OLD.get(name, NO_LIMIT))
    ]
    assert wrong == []
    assert run.output.count("clusterkit: patched fit, evaluate and predict of Keras 3") == 1
    assert b"clusterkit: patched" in run.log("worker:0")
    assert "changes its variable" not in run.output  # such layers are called with the whole batch
    apart = sum(name.startswith("layer_not_synchronized") for name in names)
    assert run.output.count("clusterkit: BatchNormalization ") == apart


@pytest.mark.parametrize("names", [ALONE, pytest.param(MORE_ALONE, marks=pytest.mark.long)], ids=["some", "others"])
def test_one_task_computes_what_plain_python_does(
    alone: Callable[..., Path], up: Callable[..., Up], tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Bit for bit, since nothing is patched in a job of one process."""
    run = up("--workers", "1", "--restart", "never", PROGRAM, tmp_path / "out", *names)
    assert run.wait(300) == 0, run.output[-4000:]
    for name in names:
        ours, theirs = read(tmp_path / "out/worker:0", name), read(alone(*names), name)
        assert {key: value.tobytes() for key, value in ours.items()} == {k: v.tobytes() for k, v in theirs.items()}
    assert "patched" not in run.output


@pytest.mark.parametrize("subject", [pytest.param(each, marks=pytest.mark.long) for each in SUBJECTS])
def test_the_cases_train(alone: Callable[..., Path], subject: str) -> None:
    """Every curve changes, and every counted row is seen once per epoch."""
    for name in every(subject):
        learnt = read(alone(*every(subject)), name)
        if "loss" in learnt and learnt["loss"].size > 1:
            assert np.ptp(learnt["loss"]) > 1e-4, name
        if "rows" in learnt and name not in ("rows_without_end", "rows_without_the_rest"):
            assert set(np.unique(learnt["rows"])) <= {0.0, 1.0}, name


def test_every_limit_is_of_a_case() -> None:
    """No limit outlives its case."""
    assert set(LIMITS) <= set(every(*SUBJECTS))

"""Rows that are shuffled without a seed: each is seen once in an epoch, whatever one worker does beside the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]
PROGRAM = CHILDREN / "agreed_order.py"
LOOPS = ("loop", "loop-nested", "loop-sampled", "function")
FITS = ("arrays", "fit", "batches")


def orders(
    up: Callable[..., Up], directory: Path, kinds: tuple[str, ...], *options: str
) -> dict[str, list[tuple[list[int], ...]]]:
    """The rows that each worker saw, in each epoch, by the kind of data."""
    directory.mkdir()
    run = up("--workers", "2", "--seed", "5", *options, PROGRAM, directory, *kinds)
    assert run.wait(200) == 0, run.output[-4000:]
    found = [json.loads((directory / f"worker:{index}").read_text()) for index in range(2)]
    return {kind: list(zip(*(worker[kind] for worker in found), strict=True)) for kind in found[0]}


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(LOOPS, id="loops", marks=pytest.mark.long),
        pytest.param(FITS, id="fits", marks=pytest.mark.skipif(OLD_KERAS, reason="so old a Keras is refused")),
    ],
)
def test_each_row_is_seen_once_in_an_epoch(up: Callable[..., Up], tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """Although the chief makes one more dataset, looks at a first batch, and has one more iterator in each epoch.

    The epochs differ, and another run with the same seed has the same order.
    """
    for name, epochs in (found := orders(up, tmp_path / "rows", kinds)).items():
        for workers in epochs:
            # In a step of `fit`, each worker sees the whole batch.
            assert name not in FITS or workers[0] == workers[1], name
            rows = workers[0] if name in FITS else workers[0] + workers[1]
            assert sorted(rows) == list(range(48)), name
        assert epochs[0] != epochs[1] != epochs[2], name
    assert orders(up, tmp_path / "again", kinds) == found


@pytest.mark.long
def test_each_row_is_seen_once_with_keras_2(up: Callable[..., Up], tmp_path: Path) -> None:
    """Arrays, whose adapter shuffles with a function of another module, and a dataset."""
    pytest.importorskip("tf_keras")
    for name, epochs in orders(up, tmp_path / "rows", ("arrays", "fit"), "--keras", "2").items():
        for workers in epochs:
            assert sorted(workers[0] + workers[1]) == list(range(48)), name
        assert epochs[0] != epochs[1] != epochs[2], name

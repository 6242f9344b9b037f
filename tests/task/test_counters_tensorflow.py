"""Keras 3 on parameter servers counts every step and row, even if workers add at the same time."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support import CHILDREN, Up
from tests.task.test_keras_tensorflow import OLD_KERAS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(150),
    pytest.mark.skipif(OLD_KERAS, reason="so old a Keras is not patched"),
]
STEPS = 400


def counted(up: Callable[..., Up], *options: str) -> list[int]:
    """The counts of a TensorFlow variable, the optimizer, two metrics and the rows of a third."""
    run = up(*options, "--workers", "2", "--ps", "1", "--restart", "never", CHILDREN / "ps_counts.py", str(STEPS))
    assert run.wait(120) == 0, run.output[-4000:]
    (numbers,) = re.findall(r"counted ([\d ]+)", run.output)
    return [int(number) for number in numbers.split()]


@pytest.mark.matrix
def test_two_workers_lose_no_counts(up: Callable[..., Up]) -> None:
    """Of 400 steps with eight rows each."""
    assert counted(up) == [STEPS, STEPS, STEPS, 8 * STEPS, 8 * STEPS]


@pytest.mark.long
def test_plain_keras_loses_counts(up: Callable[..., Up]) -> None:
    """If this fails, Keras has fixed it, and the patch can be removed."""
    exact, iterations, *_ = counted(up, "--no-patches")
    assert exact == STEPS
    assert iterations < STEPS

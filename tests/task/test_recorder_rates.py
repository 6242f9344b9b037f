"""The learning rates that a program has as numbers of its own, found by what they are called."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

import numpy as np
import pytest

from clusterkit.task.patches.recorder.rates import rates_in, rates_of


class OneNumber:
    """As a tensor or a variable of TensorFlow."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)
        self.shape = self.value.shape

    def numpy(self) -> Any:
        """Its value."""
        return self.value


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({"rate": 0.1, "LR": 1, "base_lr": 2.0}, {"rate": 0.1, "LR": 1.0, "base_lr": 2.0}),
        ({"learning_rate": OneNumber(0.5), "step_size": np.float32(0.25)}, {"learning_rate": 0.5, "step_size": 0.25}),
        ({"args": Namespace(learning_rate=0.2, batch=8)}, {"args.learning_rate": 0.2}),
        ({"dropout_rate": 0.1, "sample_rate": 8000, "growth_rate": 2, "rates": 3, "batch": 8, "separate": 1}, {}),
        ({"rate": None, "lr": True, "eta": "0.1", "learning_rate": [0.1], "step_size": OneNumber([1.0])}, {}),
        ({"rate": float("nan"), "lr": float("inf")}, {}),
    ],
)
def test_what_is_a_learning_rate(scope: dict[str, Any], found: dict[str, float]) -> None:
    """One finite number with such a name."""
    assert dict(rates_of(scope)) == found


def test_the_frames_of_the_program_are_searched() -> None:
    """From the first step outwards: the inner ones hide the outer ones, and libraries are left out."""

    def inner() -> dict[str, float]:
        rate = 0.2
        assert rate
        return rates_in(sys._getframe(), lambda module: False)

    def outer() -> dict[str, float]:
        rate, lr = 0.1, 0.3
        assert rate + lr
        return inner()

    found = outer()
    assert (found["rate"], found["lr"]) == (0.2, 0.3)
    assert rates_in(sys._getframe(), lambda module: True) == {}
    assert rates_in(None, lambda module: False) == {}

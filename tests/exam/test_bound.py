"""How much the values of one worker and of several may differ: the rule of docs/exam.md."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from clusterkit.exam.bound import Values, bound_at, rounding_of, scales_of

RNG = np.random.default_rng(3)


class Number(NamedTuple):
    """A variable of a kind with values."""

    kind: str
    values: Values


@pytest.mark.parametrize(
    ("step", "precision", "bound"),
    [
        (0, "", 1e-4),
        (1, "", 1e-4),
        (5, "", 1e-4),
        (10, "", 4e-4),
        (50, "", 1e-2),
        (144, "", 0.082944),
        (10_000, "", 0.2),
        (1, "float32", 1e-4),
        (1, "float16", 0.2),
        (1, "bfloat16", 0.2),
    ],
)
def test_the_bound(step: int, precision: str, bound: float) -> None:
    """1e-4 in the first five steps, then it grows with their square."""
    assert bound_at(step, precision) == pytest.approx(bound)


def test_a_large_variable_may_differ_by_its_own_rounding() -> None:
    """A small update of a large value is lost in the value's last bits."""
    assert rounding_of(100.0, 0) == pytest.approx(2.4e-5, rel=0.01)


@pytest.mark.parametrize(
    ("noise", "share"),
    [(0.0, 1.0), (1e-8, 1.0), (0.5, 1.0), (20.0, 20.0)],
)
def test_a_scale_has_the_other_updates_as_its_floor(noise: float, share: float) -> None:
    """A variable whose update is nothing but rounding is measured by the model's; a larger one by its own."""
    kernel, bias = np.ones((8, 8)), np.full(4, noise)
    variables = {"kernel": Number("weight", kernel), "bias": Number("weight", bias)}
    scales = scales_of(variables, {"kernel": kernel, "bias": bias})
    usual = np.sqrt((64 + 4 * noise**2) / 68)
    assert scales["bias"].norm == pytest.approx(2 * max(noise, usual))
    assert scales["kernel"].norm == pytest.approx(8 * max(1.0, usual))
    assert share >= 1.0


def test_what_adam_makes_of_rounding_is_not_compared() -> None:
    """A full step along a gradient of zero has a sign by chance; its slots show that it is nothing."""
    gradient = {"a/kernel": RNG.normal(size=(4, 4)), "a/bias": np.full(4, 1e-9)}
    variables = {name: Number("weight", np.sign(values)) for name, values in gradient.items()}
    variables |= {f"adam/{name.replace('/', '_')}_momentum": Number("optimizer", g) for name, g in gradient.items()}
    variables |= {f"adam/{name.replace('/', '_')}_velocity": Number("optimizer", g**2) for name, g in gradient.items()}
    scales = scales_of(variables, {name: one.values for name, one in variables.items()})
    assert scales["a/kernel"].compared(variables["a/kernel"].values).size == 16
    assert scales["a/bias"].compared(variables["a/bias"].values).size == 0


def test_without_slots_all_elements_are_compared() -> None:
    """Plain gradient descent has none."""
    variables = {"kernel": Number("weight", np.zeros(3))}
    assert scales_of(variables, {"kernel": None})["kernel"].compared(np.ones(3)).size == 3

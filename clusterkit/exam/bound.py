"""The bound of comparisons: how much the values that one worker and several compute may differ, by rounding alone.

The exam and --verify apply the same rule, which docs/exam.md states. An update is the change of a variable since
training began.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
# The bound is FIRST of the update in the first steps: if float32 numbers are merely summed in another order, an update
# differs by 1e-7 to 1e-5 of itself at the first step. Then the bound grows with the square of the steps, up to LARGEST,
# since each step begins with the differences of the steps before it.
FIRST, FIRST_STEPS, LARGEST = 1e-4, 5, 0.2
EPSILON = 2.0**-23  # the relative rounding error of float32
PRECISIONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # the same for types in which Keras can compute
# A gradient below this share of the model's gradients is made of rounding: its sign is by chance.
NOISE = 1e-4
# How many times as much as by a nudge of the weights, which is one rounding error, the values may differ: a step rounds
# many times.
NUDGES = 10.0


def bound_at(step: int, precision: str = "") -> float:
    """Return how much an update may differ after a step, relative to the scale of the update.

    `precision` is the type of the program's computations if it is less exact than float32, such as "float16".
    """
    grown = FIRST * max(1.0, step / FIRST_STEPS) ** 2
    return min(grown * PRECISIONS.get(precision, EPSILON) / EPSILON, LARGEST)


def bound_from(usual: float, effect: float) -> float:
    """Return the bound of a program in which nudges of the weights by one rounding error have had this effect.

    Some programs amplify rounding errors faster than `bound_at` grows: for example, weights before a normalization
    that Adam moves along gradients of nothing but rounding. What such a program does with rounding errors is measured.
    """
    return max(usual, NUDGES * effect)


def rounding_of(size: float, step: int) -> float:
    """Return how much a variable of a norm may differ because each step rounds its values to float32."""
    return 2 * EPSILON * size * math.sqrt(step + 1)


class Numbers(Protocol):
    """A variable, as far as its bound depends on it."""

    @property
    def kind(self) -> str: ...

    @property
    def values(self) -> Values: ...


@dataclass(frozen=True, slots=True)
class Scale:
    """What a variable's difference is relative to: the norm of its update, but at least the model's usual update.

    `mask` selects the elements that are compared; None selects all.
    """

    norm: float
    mask: npt.NDArray[np.bool_] | None = None

    def compared(self, values: Values) -> Values:
        if self.mask is None or self.mask.shape != values.shape:
            return values
        selected: Values = values[self.mask]
        return selected

    def allowed(self, bound: float, rounding: float) -> float:
        """Return the largest Euclidean distance between two values that are equal but for rounding."""
        return bound * self.norm + rounding + 1e-12


def scales_of(variables: Mapping[str, Numbers], updates: Mapping[str, Values | None]) -> dict[str, Scale]:
    """Return the scale of each variable.

    The floor of a scale is the root mean square of the updates of all variables of the same group: the weights, the
    moving averages, or the slots of an optimizer of one kind. Without the floor, a variable whose gradient is zero but
    for rounding, such as a bias before a normalization, would differ by its whole update. An optimizer such as Adam
    makes full steps even along such a gradient, so elements whose slots are only rounding are not compared.
    """
    weights = {name: flat(name) for name, variable in variables.items() if variable.kind == "weight"}
    owners = {name: _owner(flat(name), weights) for name, one in variables.items() if one.kind == "optimizer"}
    groups = {name: _group(name, variable.kind, owners.get(name)) for name, variable in variables.items()}
    usual = _usual_updates(groups, variables, updates)
    masks = _masks(variables, owners, groups, usual)
    scales = {}
    for name, variable in variables.items():
        size, mask = variable.values.size, masks.get(name)
        scales[name] = Scale(max(_size(updates[name], variable.values), usual[groups[name]] * math.sqrt(size)), mask)
    return scales


def flat(name: str) -> str:
    """Return a name as it is part of the name of an optimizer's slots."""
    return name.replace("/", "_")


def _owner(slot: str, weights: Mapping[str, str]) -> str | None:
    """Return the name of the weight to which a slot belongs; None if no weight's name is part of the slot's name."""
    fitting = [name for name, text in weights.items() if text in slot]
    return max(fitting, key=len, default=None)


def _group(name: str, kind: str, owner: str | None) -> str:
    """Return the name of the variables with which a variable is measured: for example `optimizer adam_*_momentum`."""
    if kind != "optimizer":
        return kind if kind == "weight" else f"{kind} {name.rpartition('/')[2]}"
    return f"optimizer {name}" if owner is None else f"optimizer {flat(name).replace(flat(owner), '*')}"


def _usual_updates(
    groups: Mapping[str, str], variables: Mapping[str, Numbers], updates: Mapping[str, Values | None]
) -> dict[str, float]:
    """Return the root mean square of the elements of all updates of each group."""
    squares, sizes = defaultdict[str, float](float), defaultdict[str, int](int)
    for name, group in groups.items():
        size = _size(updates[name], None)
        if math.isfinite(size):
            squares[group] += size**2
            sizes[group] += variables[name].values.size
    return {group: math.sqrt(squares[group] / max(sizes[group], 1)) for group in set(groups.values())}


def _size(update: Values | None, otherwise: Values | None) -> float:
    values = otherwise if update is None else update
    return 0.0 if values is None else float(np.linalg.norm(values.astype(np.float64)))


def _masks(
    variables: Mapping[str, Numbers],
    owners: Mapping[str, str | None],
    groups: Mapping[str, str],
    usual: Mapping[str, float],
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return, for each weight with slots, the elements of which at least one slot is more than rounding."""
    masks = dict[str, npt.NDArray[np.bool_]]()
    squared = _squared(variables, groups)
    for slot, owner in owners.items():
        values = variables[slot].values
        if owner is None or values.shape != variables[owner].values.shape:
            continue
        noise = NOISE**2 if groups[slot] in squared else NOISE
        mask = np.abs(values) > noise * usual[groups[slot]]
        masks[owner] = masks[owner] | mask if owner in masks else mask
    return masks


def _squared(variables: Mapping[str, Numbers], groups: Mapping[str, str]) -> set[str]:
    """Return the groups of slots that add up squares of gradients, which are never negative."""
    signed = {groups[name] for name, one in variables.items() if one.values.size and bool((one.values < 0).any())}
    return {group for name, group in groups.items() if variables[name].kind == "optimizer"} - signed

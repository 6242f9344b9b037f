"""Finds the first step after which the variables of two recordings differ, and the factor by which they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clusterkit.exam.recording import Recording, Values, Variable, VariableState, distance

# The allowed difference of two updates, as a share of the update: at step 0, its growth per step, and at most.
# Sums of float32 numbers in a different order differ by about 1e-5 of the update at the first step.
TOLERANCE, GROWTH, LOOSEST = 0.02, 0.1, 0.2
CONSTANT = 0.05  # the allowed deviation from a constant factor, as a share of the factor
COMPARED = ("weight", "optimizer", "batch-norm")


@dataclass(frozen=True, slots=True)
class Difference:
    """A variable whose updates differ by the share `distance`. N workers' update is `factor` times one worker's."""

    name: str
    kind: str
    step: int
    distance: float
    factor: float | None


def tolerance(step: int) -> float:
    """Return the allowed difference of two updates after this step, as a share of the update."""
    return min(TOLERANCE * (1 + GROWTH * step), LOOSEST)


def first_differences(one: Recording, several: Recording) -> list[Difference]:
    """Return the differences at the first recorded step that has any, the greatest difference first."""
    begun = one.begin
    steps = sorted(step for step in one.states.keys() & several.states.keys() if begun is None or step > begun.step)
    for step in steps:
        if found := _differences(one, several, one.states[step], several.states[step]):
            return found
    if one.end is not None and several.end is not None and one.end.step == several.end.step:
        return _differences(one, several, one.end, several.end)
    return []


def _differences(one: Recording, several: Recording, a: VariableState, b: VariableState) -> list[Difference]:
    differences = []
    for name, mine, theirs in comparable(a, b):
        update = _update(mine, _initial(one, name, mine))
        apart = distance(mine.values, theirs.values, _scale(mine, update))
        if apart > tolerance(a.step):
            factor = _common_factor(update, _update(theirs, _initial(several, name, theirs)))
            differences.append(Difference(name, mine.kind, a.step, apart, factor))
    return sorted(differences, key=lambda difference: -difference.distance)


def _initial(recording: Recording, name: str, now: Variable) -> Values | None:
    """Return a variable's value before the first step. For an optimizer's variable that did not exist, return zeros."""
    if recording.begin is not None and name in recording.begin.variables:
        return recording.begin.variables[name].values
    return np.zeros_like(now.values) if now.kind == "optimizer" else None


def _update(now: Variable, before: Values | None) -> Values | None:
    if before is None or before.shape != now.values.shape:
        return None
    with np.errstate(invalid="ignore"):
        update: Values = now.values.astype(np.float64) - before
    return update


def _scale(mine: Variable, update: Values | None) -> float:
    """Return the norm of the update, but at least the rounding error of the variable."""
    rounding = norm(mine) * 1e-6 * math.sqrt(max(mine.values.size, 1)) + 1e-12
    return max(norm(mine) if update is None else float(np.linalg.norm(update)), rounding)


def norm(variable: Variable) -> float:
    return float(np.linalg.norm(variable.values.astype(np.float64))) or 1.0


def _common_factor(a: Values | None, b: Values | None) -> float | None:
    """Return the factor f for which b is about f · a; None if there is no such factor."""
    if a is None or b is None or a.shape != b.shape:
        return None
    square = float(np.vdot(a, a))
    if not square or not math.isfinite(square):
        return None
    factor = float(np.vdot(b, a)) / square
    rest = float(np.linalg.norm(b - factor * a))
    return factor if rest <= CONSTANT * float(np.linalg.norm(b)) else None


def comparable(a: VariableState, b: VariableState) -> Iterator[tuple[str, Variable, Variable]]:
    """Yield the name and both states of each variable that can be compared with a tolerance."""
    for name, mine in a.variables.items():
        theirs = b.variables.get(name)
        if theirs is not None and mine.kind in COMPARED and mine.is_number and theirs.is_number:
            yield name, mine, theirs

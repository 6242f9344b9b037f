"""The recording of an attempt (values of variables after steps, digests of rows), and how two recordings differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterkit.words.model import Task

KINDS = ("weight", "optimizer", "counter", "learning-rate", "random", "metric", "batch-norm", "other")
Values = npt.NDArray[Any]
# The allowed difference of two updates, as a share of the update: at step 0, its growth per step, and at most.
# Sums of float32 numbers in a different order differ by about 1e-5 of the update at the first step.
TOLERANCE, GROWTH, LOOSEST = 0.02, 0.1, 0.2
CONSTANT = 0.05  # the allowed deviation from a constant factor, as a share of the factor
COMPARED = ("weight", "optimizer", "batch-norm")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a task. `kind` is one of KINDS. `on_read` is True if its values in the workers may differ."""

    kind: str
    on_read: bool
    values: Values

    @property
    def is_number(self) -> bool:
        """Return whether the values are floating-point numbers, which can be compared with a tolerance."""
        return bool(np.issubdtype(self.values.dtype, np.floating))


@dataclass(frozen=True, slots=True)
class VariableState:
    """A task's variables after a step, by name."""

    step: int
    variables: Mapping[str, Variable]


@dataclass(slots=True)
class Recording:
    """The recording of an attempt. `begin` is the state before the attempt's first step.

    `rows` maps each step to digests of the rows that the task trained on; `logs` maps each epoch to its metrics.
    """

    task: Task
    attempt: int
    states: dict[int, VariableState] = field(default_factory=dict)
    begin: VariableState | None = None
    end: VariableState | None = None
    rows: dict[int, tuple[str, ...]] = field(default_factory=dict)
    callbacks: dict[str, float] = field(default_factory=dict)
    logs: dict[int, dict[str, float]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)  # paths of checkpoint files opened for writing
    renamed: dict[str, bool] = field(default_factory=dict)  # maps a new path to True if the file was synced before
    replaced: set[str] = field(default_factory=set)  # the paths at which a model was written over an older model
    notes: list[str] = field(default_factory=list)

    @property
    def last_step(self) -> int | None:
        steps = [*self.rows, *self.states, *([] if self.end is None else [self.end.step])]
        return max(steps, default=None)

    def counted_rows(self) -> Counter[str]:
        return Counter(row for rows in self.rows.values() for row in rows)


def is_same(a: Values, b: Values) -> bool:
    """Return whether two arrays are equal bit by bit, so that NaN equals NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def distance(a: Values, b: Values, scale: float) -> float:
    """Return the Euclidean distance of two arrays, as a multiple of `scale`."""
    if a.shape != b.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        apart = float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64)))
    if math.isnan(apart):
        return 0.0 if np.array_equal(a, b, equal_nan=True) else math.inf
    return 0.0 if apart == 0 else apart / scale if scale > 0 else math.inf


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

"""The recording of an attempt: the values of its variables after some steps, and digests of each step's rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterkit.words.model import Task

KINDS = ("weight", "optimizer", "counter", "learning-rate", "random", "metric", "batch-norm", "other")
Values = npt.NDArray[Any]


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

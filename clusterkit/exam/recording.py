"""Recordings of attempts (values of variables after steps, digests of rows), and differences between two recordings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterkit.exam.bound import Scale, bound_at, bound_from, rounding_of, scales_of
from clusterkit.words.model import Task

# The words for --record with which a task changes its weights by rounding errors, and with which it takes over the
# variables of another run after each recorded step, as in `follow=RUN/worker-0.1`.
NUDGE, FOLLOW = "nudge", "follow="
# The word with which a coordinator hands out the functions that it has scheduled only when the program waits for them.
DEFERRED = "deferred"
KINDS = ("weight", "optimizer", "counter", "learning-rate", "random", "metric", "batch-norm", "other")
Values = npt.NDArray[Any]
CONSTANT = 0.05  # how much an update may deviate from a multiple of another update, relative to the update's norm
COMPARED = ("weight", "optimizer", "batch-norm")  # the kinds of variables that are compared with a tolerance


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a task. `kind` is one of KINDS. `on_read` is True if the values may differ between workers."""

    kind: str
    on_read: bool
    values: Values

    @property
    def is_number(self) -> bool:
        """Whether the values are floating-point numbers, which can be compared with a tolerance."""
        return bool(np.issubdtype(self.values.dtype, np.floating))


@dataclass(frozen=True, slots=True)
class VariableState:
    """A task's variables after a step. `variables` maps names to variables."""

    step: int
    variables: Mapping[str, Variable]


@dataclass(frozen=True, slots=True)
class Draw:
    """Something that draws at random: a layer, such as `RandomFlip random_flip`, or a line of the program.

    `in_data` is True if it draws in a function of tf.data, and False if it draws in training steps. No checkpoint holds
    the state of what `is_stateful`: operations such as `tf.random.normal`.
    """

    name: str
    in_data: bool
    is_stateful: bool

    @property
    def is_unsaved(self) -> bool:
        """Whether checkpoints do not hold its state. A layer that augments the data is no part of the model."""
        return self.is_stateful or self.in_data


@dataclass(frozen=True, slots=True)
class CoordinatorSave:
    """What a coordinator held when it began to save.

    By then it had scheduled `scheduled` functions, of which `pending` had not ended.
    """

    scheduled: int
    pending: int
    state: VariableState


@dataclass(slots=True)
class Recording:
    """The recording of an attempt. `begin` is the state before the attempt's first step.

    `rows` maps each step to digests of the rows on which the task trained in that step. `logs` maps each epoch to the
    metrics of that epoch.
    """

    task: Task
    attempt: int
    states: dict[int, VariableState] = field(default_factory=dict)
    begin: VariableState | None = None
    end: VariableState | None = None
    rows: dict[int, tuple[str, ...]] = field(default_factory=dict)
    callbacks: dict[str, float] = field(default_factory=dict)
    logs: dict[int, dict[str, float]] = field(default_factory=dict)
    epoch_ends: dict[int, int] = field(default_factory=dict)  # maps each epoch of `fit` to its last step
    files: set[str] = field(default_factory=set)  # paths of checkpoint files opened for writing
    read: set[str] = field(default_factory=set)  # paths of checkpoint files that were read
    # Maps the new path of each renamed file to True if the file was synced before it was renamed.
    renamed: dict[str, bool] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)  # the paths at which a model overwrote an older model
    draws: list[Draw] = field(default_factory=list)
    # Maps the path of each table that the task wrote to its size before, in bytes, and True if it was only appended to.
    tables: dict[str, tuple[int, bool]] = field(default_factory=dict)
    # The steps at which calls of `fit` began that save backups by Keras's BackupAndRestore.
    backed_up_fits: list[int] = field(default_factory=list)
    # The backup directory that a second `fit` shares with the first one, and the step at which the second one begins.
    shared_backup: tuple[str, int] | None = None
    notes: list[str] = field(default_factory=list)
    # Of a coordinator: its variables before the first function that it scheduled, how many functions it scheduled in
    # all, and its saves. `changed_after_save` maps the number of functions scheduled before a save, if some of them
    # ended later, to the name of a variable that these have changed.
    first: VariableState | None = None
    scheduled: int | None = None
    saves: list[CoordinatorSave] = field(default_factory=list)
    changed_after_save: dict[int, str] = field(default_factory=dict)
    followed: set[int] = field(default_factory=set)  # the steps after which the task took over another run's variables
    # Maps steps to the numbers by which the program reports them, if these are others.
    reported: dict[int, int] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)  # the loss that `fit` logs after each of some steps
    # The variables before the first step of a program without an optimizer, whose steps are those that it reports.
    initial: VariableState | None = None
    rates: dict[str, float] = field(default_factory=dict)  # numbers of the program that are called learning rates
    place: str = ""  # the line of the program at which the first step was made, such as `train.py, line 12`
    precision: str = ""  # the type of Keras's computations if it is not float32, such as "float16"

    @property
    def last_step(self) -> int | None:
        steps = [*self.rows, *self.states, *([] if self.end is None else [self.end.step])]
        return max(steps, default=None)

    def shown(self, step: int) -> int:
        """Return the number of a step as the program reports it.

        The two differ if the program reports each batch and applies the gradients of several batches together. A
        smaller number is that of something else, such as an epoch.
        """
        return max(self.reported.get(step, step), step)

    def counted_rows(self) -> Counter[str]:
        return Counter(row for rows in self.rows.values() for row in rows)


def following(run_id: str, recording: Recording) -> str:
    """Return the word for --record with which a task takes over the variables of this recording."""
    return f"{FOLLOW}{run_id}/{recording.task.type}-{recording.task.index}.{recording.attempt}"


def is_same(a: Values, b: Values) -> bool:
    """Return whether two arrays are bitwise equal. NaN counts as equal to NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def distance(a: Values, b: Values, scale: float) -> float:
    """Return the Euclidean distance between two arrays, as a multiple of `scale`."""
    if a.shape != b.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        apart = float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64)))
    if math.isnan(apart):
        return 0.0 if np.array_equal(a, b, equal_nan=True) else math.inf
    return 0.0 if apart == 0 else apart / scale if scale > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Difference:
    """A variable whose values differ between a run with one worker and a run with several workers.

    `distance` is relative to the norm of the variable's update. The update by several workers is `factor` times the
    update by one worker; `factor` is None if the two updates are not proportional.
    """

    name: str
    kind: str
    step: int
    distance: float
    factor: float | None


def first_differences(one: Recording, several: Recording, nudged: Recording | None = None) -> list[Difference]:
    """Return the differences at the first recorded step at which the variables differ, the largest first.

    If there is no such step, return the differences at the end, provided that both recordings end at the same step.
    `nudged` is a recording like `one` of a run whose weights were changed by rounding errors.
    """
    begun = one.begin
    steps = sorted(step for step in one.states.keys() & several.states.keys() if begun is None or step > begun.step)
    for step in steps:
        if found := differences(one, several, one.states[step], several.states[step], nudged):
            return found
    if one.end is not None and several.end is not None and one.end.step == several.end.step:
        return differences(one, several, one.end, several.end, nudged)
    return []


def differences(
    one: Recording, several: Recording, a: VariableState, b: VariableState, nudged: Recording | None = None
) -> list[Difference]:
    """Return the differences between a state of each recording that are larger than the bound, the largest first."""
    found = [*comparable(a, b)]
    updates = {name: _update(mine, _initial(one, name, mine)) for name, mine, _ in found}
    scales = scales_of({name: mine for name, mine, _ in found}, updates)
    usual = bound_at(a.step, one.precision or several.precision)
    bound = bound_from(usual, _effect_of_nudges(a, _state_at(nudged, a.step), scales))
    differences = []
    for name, mine, theirs in found:
        scale = scales[name]
        apart = _apart(scale, mine, theirs)
        if apart > scale.allowed(bound, rounding_of(norm(mine), a.step)):
            factor = _common_factor(updates[name], _update(theirs, _initial(several, name, theirs)))
            differences.append(
                Difference(name, mine.kind, a.step, apart / scale.norm if scale.norm else math.inf, factor)
            )
    return sorted(differences, key=lambda difference: -difference.distance)


def _apart(scale: Scale, mine: Variable, theirs: Variable) -> float:
    return distance(scale.compared(mine.values), scale.compared(theirs.values), 1.0)


def _state_at(recording: Recording | None, step: int) -> VariableState | None:
    """Return the state after a step, which may be that of the end; None if it was not recorded."""
    if recording is None:
        return None
    end = recording.end
    return end if end is not None and end.step == step else recording.states.get(step)


def _effect_of_nudges(a: VariableState, nudged: VariableState | None, scales: Mapping[str, Scale]) -> float:
    """Return the largest difference of a variable from the nudged run, as a multiple of the variable's scale."""
    if nudged is None:
        return 0.0
    effects = [
        _apart(scales[name], mine, theirs) / scales[name].norm
        for name, mine, theirs in comparable(a, nudged)
        if name in scales and scales[name].norm > 0
    ]
    return max(effects, default=0.0)


def _initial(recording: Recording, name: str, now: Variable) -> Values | None:
    """Return a variable's values before the first step: zeros if an optimizer's variable did not exist yet."""
    begun = recording.begin or recording.initial
    if begun is not None and name in begun.variables:
        return begun.variables[name].values
    return np.zeros_like(now.values) if now.kind == "optimizer" else None


def _update(now: Variable, before: Values | None) -> Values | None:
    if before is None or before.shape != now.values.shape:
        return None
    with np.errstate(invalid="ignore"):
        update: Values = now.values.astype(np.float64) - before
    return update


def norm(variable: Variable) -> float:
    return float(np.linalg.norm(variable.values.astype(np.float64))) or 1.0


def _common_factor(a: Values | None, b: Values | None) -> float | None:
    """Return the factor f for which b is approximately f · a; None if there is no such factor."""
    if a is None or b is None or a.shape != b.shape:
        return None
    square = float(np.vdot(a, a))
    if not square or not math.isfinite(square):
        return None
    factor = float(np.vdot(b, a)) / square
    rest = float(np.linalg.norm(b - factor * a))
    return factor if rest <= CONSTANT * float(np.linalg.norm(b)) else None


def comparable(a: VariableState, b: VariableState) -> Iterator[tuple[str, Variable, Variable]]:
    """Yield (name, variable in `a`, variable in `b`) for each variable that can be compared with a tolerance."""
    for name, mine in a.variables.items():
        theirs = b.variables.get(name)
        if theirs is None or mine.kind not in COMPARED or not mine.is_number or not theirs.is_number:
            continue
        if mine.on_read and mine.kind == "weight":
            continue  # each replica has a part of its own, such as a sum of gradients
        yield name, mine, theirs

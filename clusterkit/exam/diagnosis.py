"""Explains why one worker and several do not compute the same: says what was seen, and a cause that fits all of it.

What is seen is by how much the variables differ, and the learning rates. A cause is told as an example ("as when"),
unless the recordings prove it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import CONSTANT, Difference, Recording, VariableState, is_same
from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of

SMALL = 0.1  # differences below this share of the largest are consequences, and do not name the mistake
CLEAR = 0.1  # the logarithm of a factor below which a difference may not be that of a factor
SAME_RATE = 1e-5  # how much two learning rates may differ, relative to the larger one
SYNCHRONIZED = "Use keras.layers.BatchNormalization(synchronized=True)."
_SUMMED = "tf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH), and SUM in strategy.reduce."
_SUMMED_IN_FIT = (
    "Let the loss return one value for each row, and multiply neither it nor its weight by the number of workers: fit "
    "averages over the global batch."
)
_AVERAGED = "Divide the loss by the global batch, once; the strategy sums the gradients of the workers."
_AVERAGED_IN_FIT = (
    "Let the loss return one value for each row, and divide it neither by the batch nor by the number of workers: fit "
    "averages over the global batch."
)
_RATE = (
    "Set the learning rate for the global batch, whatever the number of workers. Multiply it by the number of workers "
    "only if the global batch grows with them."
)
_RATE_LATER = (
    "Look for what sets the learning rate: a schedule or a callback may depend neither on the number of workers nor on "
    "what one of the workers measures."
)
_STEP_SIZE = "Look for what multiplies the step of the optimizer by the number of workers, such as a learning rate."
_LOCAL = (
    "Look at what is computed from a worker's own rows alone: a norm to clip by (clip after the gradients are added up "
    "by tf.distribute.get_replica_context().all_reduce), a mean (divide the sum of all workers by the count of all), a "
    "random draw; or at what each worker adds whole, as the losses of regularizers (model.losses)."
)
_MULTIPLIED = "Look for what depends on the number of workers, such as num_replicas_in_sync in a loss or a rate."


@dataclass(frozen=True, slots=True)
class RateDifference:
    """A learning rate that is `mine` with one worker and `theirs` with several, in the states of the same step.

    `same` is the step of the last state before it in which the rates were equal; None if there is no such state.
    """

    name: str
    step: int  # 0 for a number of the program, which was seen before its first step
    mine: float
    theirs: float
    same: int | None = None

    @property
    def factor(self) -> float | None:
        return self.theirs / self.mine if self.mine else None


def explanation(differing: Sequence[Difference], one: Recording, several: Sequence[Recording]) -> ExamFinding:
    """Return a finding that says which variables differ first, by how much, and which mistake explains all of it."""
    workers = len(several)
    large = [each for each in differing if each.distance >= SMALL * differing[0].distance]
    first = next((each for each in large if each.kind == "weight"), differing[0])
    where = f"{first.name} differs first, after step {first.step}"
    norms = [each for each in differing if each.kind == "batch-norm" and not _is_shared(each, several)]
    if norms:
        return ExamFinding(
            "batch-norm",
            f"Batch normalization differs: {norms[0].name} after step {first.step} is not that of 1 worker, since each "
            "of the workers normalizes its own part of the batch.",
            SYNCHRONIZED,
        )
    rate = differing_rate(one, several[0], first.step)
    if rate is not None:
        return _other_rate(rate, large, one, several, where)
    scaled = _scaled([each for each in large if each.kind != "batch-norm"], one, several, where)
    if scaled is not None and scaled.code != "differs":
        return scaled
    uneven = _uneven_step(several, first.step)
    if uneven is not None:
        sizes = [len(recording.rows.get(uneven, ())) for recording in several]
        return ExamFinding(
            "uneven-rows",
            f"1 worker and {workers} do not compute the same since a step in which the workers have different numbers "
            f"of rows ({listed(list(map(str, sizes)))} in step {uneven}), as when each row of the smaller part weighs "
            f"more ({where}).",
            "Divide the sum of the losses by the rows of the whole batch in that step, or batch with drop_remainder.",
        )
    return scaled or _unexplained(differing, first, workers)


def _is_shared(norm: Difference, several: Sequence[Recording]) -> bool:
    """Return whether all workers have equal moving averages, although each may have its own.

    So all of them normalize the whole batch, and the averages differ from those of one worker by what they are fed.
    """
    states = [recording.states.get(norm.step) for recording in several]
    found = [state.variables.get(norm.name) for state in states if state is not None]
    known = [variable for variable in found if variable is not None and variable.on_read]
    if len(known) < len(several):
        return False
    return all(is_same(known[0].values, other.values) for other in known[1:])


def _unexplained(differing: Sequence[Difference], first: Difference, workers: int) -> ExamFinding:
    text = f"1 worker and {workers} do not compute the same: {first.name} differs first, after step {first.step}, by "
    text += f"{min(first.distance, 9.99):.2%} of its update"
    others = len(differing) - 1
    if others:
        text += f"; so {'does' if others == 1 else 'do'} {number_of('other', others)}"
    return ExamFinding("differs", f"{text}.", _LOCAL)


def differing_rate(one: Recording, several: Recording, until: int) -> RateDifference | None:
    """Return the first learning rate that differs in the states up to the step `until`; None if none differs."""
    pairs = [(one.states[step], several.states[step]) for step in sorted(one.states.keys() & several.states.keys())]
    if one.begin is not None and several.begin is not None and one.begin.step == several.begin.step:
        pairs.insert(0, (one.begin, several.begin))
    if one.end is not None and several.end is not None and one.end.step == several.end.step:
        pairs.append((one.end, several.end))
    same = None
    for mine, theirs in pairs:
        if mine.step > until:
            break
        found = _rates_apart(mine, theirs)
        if found is not None:
            return replace(found, same=same)
        same = mine.step if _rates(mine) else same
    return None


def _rates_apart(mine: VariableState, theirs: VariableState) -> RateDifference | None:
    rates, others = _rates(mine), _rates(theirs)
    for name, rate in rates.items():
        other = others.get(name, rate)
        if abs(other - rate) > SAME_RATE * max(abs(other), abs(rate)):
            return RateDifference(name, mine.step, rate, other)
    return None


def _rates(state: VariableState) -> dict[str, float]:
    """Map the name of each learning rate to its value, without those that are not one finite number."""
    rates = {}
    for name, variable in state.variables.items():
        if variable.kind == "learning-rate" and variable.values.size == 1 and variable.is_number:
            rates[name] = float(variable.values.reshape(()))
    return {name: rate for name, rate in rates.items() if np.isfinite(rate)}


def _other_rate(
    rate: RateDifference, large: Sequence[Difference], one: Recording, several: Sequence[Recording], where: str
) -> ExamFinding:
    """Say that the learning rates differ, and whether the updates differ by the same factor."""
    workers = len(several)
    text = f"The learning rate is {rate.theirs:.6g} with {workers} workers and {rate.mine:.6g} with 1"
    if one.rows and all(each.rows for each in several):  # else nobody knows: rows that differ are told before this
        text += ", although both train on the same rows in each step"
    text += f" ({rate.name}, after step {rate.step})" if rate.step else f" ({rate.name} in the program)"
    if rate.same is not None:
        text += f", and was equal after step {rate.same}"
    factor, weights = rate.factor, [each for each in large if each.kind == "weight"]
    if factor is not None and weights and all(_is_factor(each, factor) for each in weights):
        text += f": the updates of the weights are {factor:.3g} times those of 1 worker"
    return ExamFinding("rate-differs", f"{text}; {where}.", _RATE if rate.same is None else _RATE_LATER)


def _scaled(
    large: Sequence[Difference], one: Recording, several: Sequence[Recording], where: str
) -> ExamFinding | None:
    """Return a finding if all updates are multiplied by one factor, of which an optimizer's slots may have the square.

    The learning rates are equal or unknown: a learning rate that differs is explained before this.
    """
    workers = len(several)
    factor = factor_of(large, workers) if large else None
    if factor is None or abs(math.log(factor)) < CLEAR:
        return None
    times = f"are {factor:.3g} times too large with {workers} workers"
    if factor < 1:
        times = f"of {workers} workers are {factor:.3g} of what they are with 1 worker"
    weights = [each.kind == "weight" for each in large]
    if all(weights) and _slots_are_equal(large, one, several):
        return ExamFinding(
            "differs",
            f"The updates {times}, although the optimizer's slots are equal: the gradients are the same, and the steps "
            f"of the optimizer have another length ({where}).",
            _STEP_SIZE,
        )
    # Sums of squares grow with the gradients alone; without them, the learning rate may be what is multiplied.
    squares = [each for each in large if each.kind == "optimizer" and not _is_multiple(each, factor)]
    is_unsure = not squares and not _has_rates(one, several[0])
    own = _own_rate(factor, one, several[0]) if is_unsure else None
    if own is not None and all(weights):
        return _other_rate(own, large, one, several, where)
    seen = f"The {'updates' if is_unsure else 'gradients'} {times}"
    other = _other_cause(one, several[0]) if is_unsure else ""
    if abs(factor / workers - 1) < CONSTANT:
        cause = "as when the loss is summed over the workers, or divided by the local batch instead of the global one"
        remedy = _SUMMED_IN_FIT if one.logs else _SUMMED
        return ExamFinding("loss-summed", f"{seen}, {cause}{other} ({where}).", remedy)
    if abs(factor * workers - 1) < CONSTANT:
        cause = f"as when the loss is averaged over the {workers} workers twice"
        remedy = _AVERAGED_IN_FIT if one.logs else _AVERAGED
        return ExamFinding("averaged-twice", f"{seen}, {cause}{other} ({where}).", remedy)
    return ExamFinding("differs", f"{seen} ({where}).", _MULTIPLIED)


def _other_cause(one: Recording, several: Recording) -> str:
    """Say what else may multiply the updates, or what was seen of it: a learning rate that no optimizer has."""
    equal = (name for name, rate in one.rates.items() if several.rates.get(name) == rate)
    name = next(equal, None)
    if name is None:
        return ", or the learning rate, which was not seen, depends on the workers"
    return f"; {name} in the program is {one.rates[name]:.6g} with both"


def _own_rate(factor: float, one: Recording, several: Recording) -> RateDifference | None:
    """Return a learning rate that the program has as a number of its own, and that differs by this factor."""
    for name, mine in one.rates.items():
        theirs = several.rates.get(name, mine)
        if mine and abs(theirs / mine / factor - 1) < CONSTANT:
            return RateDifference(name, 0, mine, theirs)
    return None


def factor_of(large: Sequence[Difference], workers: int) -> float | None:
    """Return the factor of all updates, which is positive; None if there is no such factor.

    Slots may have the square of the factor, so the number of workers and its inverse are tried first. If neither fits,
    and all differences are those of slots, the factor nearest to 1 is tried.
    """
    known = [each.factor for each in large if each.kind == "weight"] or [each.factor for each in large]
    positive = [factor for factor in known if factor is not None and factor > 0]
    tried = [float(workers), 1 / workers, *sorted(positive, key=lambda factor: abs(math.log(factor)))[:1]]
    fitting = (factor for factor in tried if all(_is_factor(each, factor) for each in large))
    return next(fitting, None)


def _is_factor(one: Difference, factor: float) -> bool:
    return _is_multiple(one, factor) or (one.kind == "optimizer" and _is_multiple(one, factor**2))


def _is_multiple(one: Difference, factor: float) -> bool:
    return one.factor is not None and abs(one.factor / factor - 1) < CONSTANT


def _slots_are_equal(large: Sequence[Difference], one: Recording, several: Sequence[Recording]) -> bool:
    """Return whether the optimizer has slots that are not zero in the state that differs first; they don't differ."""
    step = large[0].step
    states = [each for each in (one.states.get(step), one.end) if each is not None and each.step == step]
    slots = [variable for variable in states[0].variables.values() if variable.kind == "optimizer"] if states else []
    return any(bool(variable.values.any()) for variable in slots)


def _has_rates(one: Recording, several: Recording) -> bool:
    """Return whether the learning rates of both were recorded in a common state."""
    return any(_rates(one.states[step]) and _rates(several.states[step]) for step in one.states.keys() & several.states)


def _uneven_step(several: Sequence[Recording], until: int) -> int | None:
    """Return the first step in which the workers have different numbers of rows; None if there is no such step.

    The search begins after the last recorded state before the step `until`, and ends with `until`.
    """
    since = max((step for step in several[0].states if step < until), default=0)
    steps = (step for step in sorted(several[0].rows) if since < step <= until)
    return next((step for step in steps if len({len(one.rows.get(step, ())) for one in several}) > 1), None)

"""Equality: whether one worker and several compute the same, and what kind of mistake explains a difference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import Recording, State, Values, Variable, distance, is_same
from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of

# How far apart two updates may be, as a share of the update: sums of float32 in another order differ by some 1e-5 of it
# at the first step, and the difference grows with the steps.
TOLERANCE, GROWTH, LOOSEST = 0.02, 0.1, 0.2
AGREEMENT = 1e-6  # how far apart the workers of a gang may be, as a share of the variable
CONSTANT = 0.05  # how far a factor may be from a constant one
_SYNCHRONIZED = "Use keras.layers.BatchNormalization(synchronized=True)."
_SAME_VALUES = (
    "Create every variable inside strategy.scope(), from the same seed, and update it through the strategy's optimizer "
    "alone."
)
COMPARED = ("weight", "optimizer", "batch-norm")


@dataclass(frozen=True, slots=True)
class Difference:
    """A variable that differs. `apart` is a share of its update, `factor` by how much the update is larger with N."""

    name: str
    kind: str
    step: int
    apart: float
    factor: float | None


def tolerance(step: int) -> float:
    """How far apart the updates may be after this many steps, as a share of the update."""
    return min(TOLERANCE * (1 + GROWTH * step), LOOSEST)


def equality(one: Recording, several: Sequence[Recording]) -> list[ExamFinding]:
    """What differs between a job of one worker and the same job with several, the leader's recording first."""
    found = [*shared_files(several), *rows_findings(one, several), *agreement(several)]
    if any(finding.code not in ("workers-differ", "shared-file") for finding in found):
        return found  # the two compute something else; their weights say nothing more
    differing = first_differences(one, several[0])
    return found + ([explained(differing, several)] if differing else [])


def draws(several: Sequence[Recording]) -> bool:
    """Whether the program draws random numbers while it trains: the state of a generator has changed."""
    for recording in several:
        for name, before in ({} if recording.begin is None else recording.begin.variables).items():
            after = {} if recording.end is None else recording.end.variables
            if before.kind == "random" and name in after and not is_same(before.values, after[name].values):
                return True
    return False


def shared_files(several: Sequence[Recording]) -> Iterator[ExamFinding]:
    """Files of checkpoints that several workers write."""
    for first, second in combinations(several, 2):
        if shared := sorted(first.files & second.files):
            yield ExamFinding(
                "shared-file",
                f"{first.task} and {second.task} both write {shared[0]}: what is in the file is by chance one's or the "
                "other's, or a part of each.",
                "Let worker:0 alone write it, or give each worker a path of its own.",
            )
            return


def agreement(several: Sequence[Recording]) -> Iterator[ExamFinding]:
    """Workers of a gang that do not have the same values after the same step."""
    leader = several[0]
    for other in several[1:]:
        states = [*leader.states.items(), *([] if leader.end is None else [(leader.end.step, leader.end)])]
        for step, state in sorted(states, key=lambda item: item[0]):
            theirs = other.end if state is leader.end else other.states.get(step)
            if theirs is None or theirs.step != step:
                continue
            if (name := _disagreement(state, theirs)) is not None:
                is_norm = state.variables[name].kind == "batch-norm"
                yield ExamFinding(
                    "batch-norm" if is_norm else "workers-differ",
                    f"After step {step}, {name} of {other.task} is not that of {leader.task}: "
                    "the workers of a gang have to hold the same values.",
                    _SYNCHRONIZED if is_norm else _SAME_VALUES,
                )
                return


def _disagreement(a: State, b: State) -> str | None:
    for name, mine, theirs in _compared(a, b):
        if not mine.on_read and distance(mine.values, theirs.values, _norm(mine)) > AGREEMENT:
            return name
    return None


def _compared(a: State, b: State) -> Iterator[tuple[str, Variable, Variable]]:
    """The variables of two states that can be compared with a tolerance, by name."""
    for name, mine in a.variables.items():
        theirs = b.variables.get(name)
        if theirs is not None and mine.kind in COMPARED and mine.is_number and theirs.is_number:
            yield name, mine, theirs


def rows_findings(one: Recording, several: Sequence[Recording]) -> Iterator[ExamFinding]:
    """Rows that several workers train on too often, or not at all."""
    everything = Counter[str]()
    for recording in several:
        everything += recording.counted_rows()
    alone = one.counted_rows()
    if not alone or not all(recording.rows for recording in several):
        return
    workers = len(several)
    whole = [steps for steps in _together(several) if all(steps)]
    if workers > 1 and whole and all(len(set(map(frozenset, steps))) == 1 for steps in whole):
        yield ExamFinding(
            "same-rows",
            f"The {workers} workers train on the same rows in each step: the data is not sharded.",
            "Let strategy.experimental_distribute_dataset shard one global dataset, or shard by "
            "input_context.input_pipeline_id in distribute_datasets_from_function.",
        )
        return
    size, sizes = _rows_a_step([one]), _rows_a_step(several)
    if size and sizes and sizes >= 1.5 * size and abs(sizes / size - workers) < 0.25 * workers:
        yield ExamFinding(
            "global-batch",
            f"The global batch grows with the workers: {size:g} rows a step with 1 worker, {sizes:g} with {workers}. "
            "The two jobs train differently, so that their results can't be compared.",
            "Batch by the global batch, of a size that does not depend on the number of workers; if it is meant to "
            "grow, scale the learning rate with it.",
        )
        return
    missed = [row for row, times in alone.items() if everything[row] < times]
    repeated = [row for row, times in everything.items() if times > alone[row]]
    if missed:
        yield ExamFinding(
            "rows-missed",
            f"{workers} workers leave out {number_of('row', len(missed))} of {len(alone)} that 1 worker trains on "
            f"({len(one.rows)} steps with 1 worker, {len(several[0].rows)} with {workers}).",
            "Shard the data once: either by tf.distribute or by the program. Drop no remainder, or the same.",
        )
    if repeated:
        yield ExamFinding(
            "rows-repeated",
            f"{workers} workers train on {number_of('row', len(repeated))} of {len(alone)} more often than 1 worker.",
            "Let the workers shuffle with the same seed before they shard, and repeat the data after that.",
        )


def _together(several: Sequence[Recording]) -> Iterator[list[tuple[str, ...]]]:
    """The rows of all workers, step by step."""
    for step in sorted(several[0].rows):
        yield [recording.rows.get(step, ()) for recording in several]


def _rows_a_step(several: Sequence[Recording]) -> float:
    sizes = [sum(map(len, steps)) for steps in _together(several)]
    return float(np.median(sizes)) if sizes else 0.0


def first_differences(one: Recording, several: Recording) -> list[Difference]:
    """The variables that differ after the first recorded step after which any does, the most different first."""
    begun = one.begin
    steps = sorted(step for step in one.states.keys() & several.states.keys() if begun is None or step > begun.step)
    for step in steps:
        if found := _differences(one, several, one.states[step], several.states[step]):
            return found
    if one.end is not None and several.end is not None and one.end.step == several.end.step:
        return _differences(one, several, one.end, several.end)
    return []


def _differences(one: Recording, several: Recording, a: State, b: State) -> list[Difference]:
    found = []
    for name, mine, theirs in _compared(a, b):
        update = _update(mine, _initial(one, name, mine))
        apart = distance(mine.values, theirs.values, _scale(mine, update))
        if apart > tolerance(a.step):
            factor = _factor(update, _update(theirs, _initial(several, name, theirs)))
            found.append(Difference(name, mine.kind, a.step, apart, factor))
    return sorted(found, key=lambda difference: -difference.apart)


def _initial(recording: Recording, name: str, now: Variable) -> Values | None:
    """The value before the first step. Slots and counts that did not exist yet began at zero."""
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
    """The norm of the update, but no less than what rounding makes of the variable."""
    rounding = _norm(mine) * 1e-6 * math.sqrt(max(mine.values.size, 1)) + 1e-12
    return max(_norm(mine) if update is None else float(np.linalg.norm(update)), rounding)


def _norm(variable: Variable) -> float:
    return float(np.linalg.norm(variable.values.astype(np.float64))) or 1.0


def _factor(a: Values | None, b: Values | None) -> float | None:
    """By what constant factor one update is larger than the other; None if by none."""
    if a is None or b is None or a.shape != b.shape:
        return None
    square = float(np.vdot(a, a))
    if not square or not math.isfinite(square):
        return None
    factor = float(np.vdot(b, a)) / square
    rest = float(np.linalg.norm(b - factor * a))
    return factor if rest <= CONSTANT * float(np.linalg.norm(b)) else None


def explained(differing: Sequence[Difference], several: Sequence[Recording]) -> ExamFinding:
    """The kind of mistake that explains which variables differ first, and by how much."""
    first, workers = differing[0], len(several)
    where = f"{first.name} differs first, after step {first.step}"
    norms = [one for one in differing if one.kind == "batch-norm"]
    if norms:
        return ExamFinding(
            "batch-norm",
            f"Batch normalization differs: {norms[0].name} after step {first.step} is not that of 1 worker, since each "
            "of the workers normalizes its own part of the batch.",
            _SYNCHRONIZED,
        )
    factor = _common_factor(differing, workers)
    if factor is not None and factor > 1:
        return ExamFinding(
            "loss-summed",
            f"The gradients are {factor:g} times too large with {workers} workers: the loss is summed over the "
            f"workers, or divided by the local batch instead of the global one ({where}).",
            "tf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH), and SUM in strategy.reduce.",
        )
    if factor is not None:
        return ExamFinding(
            "averaged-twice",
            f"The gradients are {factor:.3g} of what they are with 1 worker: they are averaged over the {workers} "
            f"workers twice ({where}).",
            "Divide the loss by the global batch, once; the strategy sums the gradients of the workers.",
        )
    if (uneven := _uneven_step(several, first.step)) is not None:
        sizes = [len(recording.rows.get(uneven, ())) for recording in several]
        return ExamFinding(
            "uneven-rows",
            f"1 worker and {workers} do not compute the same since a step in which the workers have different numbers "
            f"of rows ({listed(list(map(str, sizes)))} in step {uneven}): each row of the smaller part weighs more "
            f"({where}).",
            "Divide the sum of the losses by the rows of the whole batch in that step, or batch with drop_remainder.",
        )
    return ExamFinding(
        "differs",
        f"1 worker and {workers} do not compute the same: {where}, by {min(first.apart, 9.99):.0%} of its update; "
        f"so do {len(differing) - 1} others. No constant factor explains it.",
        "Look at what is computed from a worker's own rows alone: a norm to clip by, a mean, a random draw.",
    )


def _uneven_step(several: Sequence[Recording], until: int) -> int | None:
    """A step with different numbers of rows between the first recorded difference and the record before it."""
    since = max((step for step in several[0].states if step < until), default=0)
    steps = (step for step in sorted(several[0].rows) if since < step <= until)
    return next((step for step in steps if len({len(one.rows.get(step, ())) for one in several}) > 1), None)


def _common_factor(differing: Sequence[Difference], workers: int) -> float | None:
    """N or 1/N, if all updates differ by that; slots with squares of gradients, as Adam's second, by its square."""
    return next(
        (factor for factor in (float(workers), 1 / workers) if all(_fits(one, factor) for one in differing)), None
    )


def _fits(one: Difference, factor: float) -> bool:
    allowed = (factor, factor**2) if one.kind == "optimizer" else (factor,)
    return one.factor is not None and any(abs(one.factor / each - 1) < CONSTANT for each in allowed)

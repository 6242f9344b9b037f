"""The equality chapter of an exam: compares runs with one worker and with several, and explains differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np

from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import (
    CONSTANT,
    Difference,
    Recording,
    VariableState,
    comparable,
    distance,
    first_differences,
    is_same,
    norm,
)
from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of

AGREEMENT = 1e-6  # how much a variable may differ between a gang's workers, relative to the variable's norm
SMALL = 0.1  # differences below this share of the largest are consequences, and do not name the mistake
_SYNCHRONIZED = "Use keras.layers.BatchNormalization(synchronized=True)."
_SAME_VALUES = (
    "Create every variable inside strategy.scope(), from the same seed, and update it through the strategy's optimizer "
    "alone."
)
_SAME_SEED = (
    "Let all workers make, split and shuffle the data with the same seed before they shard it, by "
    "keras.utils.set_random_seed(seed) or numpy.random.default_rng(seed), and repeat the data after that."
)
_SHARD_ONCE = "Shard the data once: either by tf.distribute or by the program. Drop no remainder, or the same."


def equality(one: Recording, several: Sequence[Recording]) -> list[ExamFinding]:
    """Compare the recording of a single worker with those of several workers, with the leader's recording first."""
    findings = [*shared_files(several), *rows_findings(one, several), *agreement(several)]
    if any(finding.code not in ("workers-differ", "shared-file") for finding in findings) or other_order(one, several):
        return findings  # the runs train on different rows or in a different order, so weights can't be compared
    differing = first_differences(one, several[0])
    return findings + ([explanation(differing, several)] if differing else [])


def draws(several: Sequence[Recording]) -> bool:
    """Return whether the program draws random numbers in training, judging by the states of its random generators."""
    for recording in several:
        for name, before in ({} if recording.begin is None else recording.begin.variables).items():
            after = {} if recording.end is None else recording.end.variables
            if before.kind == "random" and name in after and not is_same(before.values, after[name].values):
                return True
    return False


def shared_files(several: Sequence[Recording]) -> Iterator[ExamFinding]:
    """Yield a finding if two workers have written the same checkpoint file."""
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
    """Yield a finding for the first worker whose variables differ from the leader's variables after the same step."""
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


def _disagreement(a: VariableState, b: VariableState) -> str | None:
    for name, mine, theirs in comparable(a, b):
        if not mine.on_read and distance(mine.values, theirs.values, norm(mine)) > AGREEMENT:
            return name
    return None


def rows_findings(one: Recording, several: Sequence[Recording]) -> Iterator[ExamFinding]:
    """Yield findings about rows on which several workers train too often, too rarely, or not at all."""
    one_counts, several_counts = one.counted_rows(), _counted_rows(several)
    if not one_counts or not all(recording.rows for recording in several):
        return
    workers = len(several)
    whole = [steps for steps in _rows_by_step(several) if all(steps)]
    if workers > 1 and whole and all(len(set(map(frozenset, steps))) == 1 for steps in whole):
        yield ExamFinding(
            "same-rows",
            f"The {workers} workers train on the same rows in each step: the data is not sharded.",
            "Let strategy.experimental_distribute_dataset shard one global dataset, or shard by "
            "input_context.input_pipeline_id in distribute_datasets_from_function.",
        )
        return
    size, sizes = _rows_per_step([one]), _rows_per_step(several)
    if size and sizes and sizes >= 1.5 * size and abs(sizes / size - workers) < 0.25 * workers:
        yield ExamFinding(
            "global-batch",
            f"The global batch grows with the workers: {size:g} rows a step with 1 worker, {sizes:g} with {workers}. "
            "The two jobs train differently, so that their results can't be compared.",
            "Batch by the global batch, of a size that does not depend on the number of workers; if it is meant to "
            "grow, scale the learning rate with it.",
        )
        return
    yield from _row_findings(one, several, one_counts, several_counts)


def other_order(one: Recording, several: Sequence[Recording]) -> str:
    """If the runs train on the same rows in different orders, return a clause that says so; otherwise, return ""."""
    steps = one.rows.keys() & several[0].rows.keys()
    same_rows = (
        Counter(one.rows[step]) == Counter(chain(*(each.rows.get(step, ()) for each in several))) for step in steps
    )
    if not _equally_often(one.counted_rows(), _counted_rows(several)) or all(same_rows):
        return ""
    return (
        f"{len(several)} workers train on the rows in another order than 1 worker, as when files are divided among the "
        "workers, so that their results can't be compared step by step"
    )


def _counted_rows(several: Sequence[Recording]) -> Counter[str]:
    """Count how often several workers together train on each row."""
    return sum((recording.counted_rows() for recording in several), Counter[str]())


def _equally_often(one_counts: Counter[str], several_counts: Counter[str]) -> bool:
    """Return whether two runs train on the same rows, and on each row equally often.

    The two counts of a row may differ by 1, to allow for an incomplete epoch, but the totals must be equal.
    """
    if one_counts.keys() != several_counts.keys() or one_counts.total() != several_counts.total():
        return False
    return all(abs(several_counts[row] - times) <= 1 for row, times in one_counts.items())


def _row_findings(
    one: Recording, several: Sequence[Recording], one_counts: Counter[str], several_counts: Counter[str]
) -> Iterator[ExamFinding]:
    """Yield findings about rows on which all workers together train more often or less often than a single worker."""
    if _equally_often(one_counts, several_counts):
        return
    workers = len(several)
    missed = [row for row, times in one_counts.items() if several_counts[row] < times]
    repeated = [row for row, times in several_counts.items() if times > one_counts[row]]
    if one_counts.keys().isdisjoint(several_counts) and one_counts.total() == several_counts.total():
        yield ExamFinding(
            "rows-differ",
            f"{workers} workers train on as many rows as 1 worker, but none has the same values: the workers prepare "
            "their rows differently.",
            "Prepare a row from itself or from all data, not from a worker's own rows; seed noise by the row.",
        )
        return
    same_total = one_counts.total() == several_counts.total()
    if missed:
        less = "less often than 1 worker" if any(several_counts[row] for row in missed) else "never, unlike 1 worker"
        yield ExamFinding(
            "rows-missed",
            f"Rows are lost: {workers} workers train on {len(missed)} of {number_of('row', len(one_counts))} {less} "
            f"({len(one.rows)} steps with 1 worker, {len(several[0].rows)} with {workers}).",
            _SAME_SEED if same_total else _SHARD_ONCE,
        )
    if repeated:
        unknown = len(several_counts.keys() - one_counts.keys())
        more = f"; 1 worker does not have {unknown} of them" if unknown else ""
        yield ExamFinding(
            "rows-repeated",
            f"{workers} workers train on {number_of('row', len(repeated))} more often than 1 worker{more}.",
            "" if missed and same_total else _SAME_SEED,
        )


def _rows_by_step(several: Sequence[Recording]) -> Iterator[list[tuple[str, ...]]]:
    """For each step, yield a list with the rows of each worker."""
    for step in sorted(several[0].rows):
        yield [recording.rows.get(step, ()) for recording in several]


def _rows_per_step(several: Sequence[Recording]) -> float:
    sizes = [sum(map(len, steps)) for steps in _rows_by_step(several)]
    return float(np.median(sizes)) if sizes else 0.0


def explanation(differing: Sequence[Difference], several: Sequence[Recording]) -> ExamFinding:
    """Return a finding that names the likely mistake, judging by which variables differ first, and by how much."""
    workers = len(several)
    large = [one for one in differing if one.distance >= SMALL * differing[0].distance]
    first = next((one for one in large if one.kind == "weight"), differing[0])
    where = f"{first.name} differs first, after step {first.step}"
    norms = [one for one in differing if one.kind == "batch-norm"]
    if norms:
        return ExamFinding(
            "batch-norm",
            f"Batch normalization differs: {norms[0].name} after step {first.step} is not that of 1 worker, since each "
            "of the workers normalizes its own part of the batch.",
            _SYNCHRONIZED,
        )
    factor = _common_factor(large, workers)
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
        f"1 worker and {workers} do not compute the same: {where}, by {min(first.distance, 9.99):.0%} of its update"
        f"{_and_others(len(differing) - 1)}. No constant factor explains it.",
        "Look at what is computed from a worker's own rows alone: a norm to clip by, a mean, a random draw; or at what "
        "each worker adds whole, such as the losses of regularizers (model.losses).",
    )


def _and_others(count: int) -> str:
    """Return a clause about the other variables that differ; "" if there are none."""
    if count == 0:
        return ""
    return "; so does 1 other" if count == 1 else f"; so do {count} others"


def _uneven_step(several: Sequence[Recording], until: int) -> int | None:
    """Return the first step in which the workers have different numbers of rows; None if there is no such step.

    The search begins after the last recorded state before the step `until`, and ends with `until`.
    """
    since = max((step for step in several[0].states if step < until), default=0)
    steps = (step for step in sorted(several[0].rows) if since < step <= until)
    return next((step for step in steps if len({len(one.rows.get(step, ())) for one in several}) > 1), None)


def _common_factor(differing: Sequence[Difference], workers: int) -> float | None:
    """Return the factor (`workers` or 1 / `workers`) by which all updates differ; None if neither factor fits.

    The slots of an optimizer may also differ by the square of the factor.
    """
    return next(
        (factor for factor in (float(workers), 1 / workers) if all(_fits_factor(one, factor) for one in differing)),
        None,
    )


def _fits_factor(one: Difference, factor: float) -> bool:
    allowed = (factor, factor**2) if one.kind == "optimizer" else (factor,)
    return one.factor is not None and any(abs(one.factor / each - 1) < CONSTANT for each in allowed)

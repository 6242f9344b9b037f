"""The equality chapter of an exam: compares runs with one worker and with several, and explains differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np

from clusterkit.exam.diagnosis import SYNCHRONIZED, explanation
from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import (
    Recording,
    VariableState,
    comparable,
    distance,
    first_differences,
    is_same,
    norm,
)
from clusterkit.words.model import number_of

AGREEMENT = 1e-6  # how much a variable may differ between a gang's workers, relative to the variable's norm
SHARDED = 0.05  # how much a share of the rows may differ from 1 / N, if N shards are sharded again
ALIKE = 2  # the number of steps with the same rows after which two runs are taken to have the same batches
_SAME_VALUES = (
    "Create every variable inside strategy.scope(), from the same seed, and update it through the strategy's optimizer "
    "alone."
)
_SAME_SEED = (
    "Let all workers make, split and shuffle the data with the same seed before they shard it, by "
    "keras.utils.set_random_seed(seed) or numpy.random.default_rng(seed), and repeat the data after that."
)
_SAME_STEPS = (
    "Let the number of steps depend on the global batch alone: steps_per_epoch = rows // GLOBAL_BATCH, with any number "
    "of workers."
)
_SHARD_ONCE = "Shard the data once: either by tf.distribute or by the program. Drop no remainder, or the same."


def equality(one: Recording, several: Sequence[Recording]) -> list[ExamFinding]:
    """Compare the recording of a single worker with those of several workers, with the leader's recording first."""
    findings = [*shared_files(several), *rows_findings(one, several), *agreement(several)]
    if any(finding.code not in ("workers-differ", "shared-file") for finding in findings) or other_order(one, several):
        return findings  # the runs train on different rows or in a different order, so weights can't be compared
    differing = first_differences(one, several[0])
    if not differing:
        return findings
    found = explanation(differing, one, several)
    if found.code == "differs" and any(finding.code == "workers-differ" for finding in findings):
        return findings  # workers that hold different values do not compute what one worker does
    return [*findings, found]


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
                    SYNCHRONIZED if is_norm else _SAME_VALUES,
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
    other_steps = _other_steps(one, several)
    if other_steps is not None:
        yield other_steps
        return
    yield from _row_findings(one, several, one_counts, several_counts)


def _other_steps(one: Recording, several: Sequence[Recording]) -> ExamFinding | None:
    """Return a finding if the number of steps is divided or multiplied by the workers, and the batches are the same."""
    workers, mine, theirs = len(several), len(one.rows), len(several[0].rows)
    fewer, more = sorted((mine, theirs))
    if fewer == 0 or abs(more / fewer - workers) >= 0.25 * workers or _alike(one, several) < ALIKE:
        return None
    epochs = one.epoch_ends.keys() & several[0].epoch_ends.keys()
    text = f"{workers} workers make {number_of('step', theirs)} and 1 worker makes {mine}"
    if 0 in epochs and one.epoch_ends[0] != several[0].epoch_ends[0]:
        text += f" (in the first epoch {several[0].epoch_ends[0]} and {one.epoch_ends[0]})"
    how = "divided" if theirs < mine else "multiplied"
    return ExamFinding(
        "steps-differ",
        f"{text}, although they train on the same rows in each of the first steps: the number of steps is {how} by the "
        "number of workers, and each step trains a whole global batch.",
        _SAME_STEPS,
    )


def _alike(one: Recording, several: Sequence[Recording]) -> int:
    """Return the number of steps at the beginning in which all workers together train on the rows of one worker."""
    alike = 0
    for step in sorted(one.rows.keys() & several[0].rows.keys()):
        if Counter(one.rows[step]) != Counter(chain(*(each.rows.get(step, ()) for each in several))):
            break
        alike += 1
    return alike


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
        share = several_counts.total() / one_counts.total()
        twice = ""
        if abs(share * workers - 1) < SHARDED:
            twice = f"; in all, they train on 1/{workers} of its rows, as when data that is sharded is sharded again"
        yield ExamFinding(
            "rows-missed",
            f"Rows are lost: {workers} workers train on {len(missed)} of {number_of('row', len(one_counts))} {less} "
            f"({len(one.rows)} steps with 1 worker, {len(several[0].rows)} with {workers}){twice}.",
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

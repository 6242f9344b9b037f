"""The equality chapter of an exam: compares runs with one worker and with several, and explains differences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from clusterkit.exam.bound import FIRST_STEPS, LARGEST
from clusterkit.exam.diagnosis import SYNCHRONIZED, explanation
from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import (
    Difference,
    Recording,
    VariableState,
    comparable,
    distance,
    first_differences,
    is_same,
    norm,
)
from clusterkit.words.model import number_of

# Runs a single worker that takes over the variables of several workers after each recorded step. If the argument is
# True, its weights are changed by rounding errors at the beginning and after each recorded step, too. Returns its
# recording, or None if the run failed.
Rerun = Callable[[bool], Recording | None]
# A difference of this share of an update in the first steps is not tried again: it can't come from rounding.
CERTAIN, CERTAIN_STEPS = 0.1, 2
# The codes of findings that random draws in the data, or in the steps, may explain.
ROWS_BY_CHANCE = frozenset({"rows-differ", "rows-missed", "rows-repeated"})
VALUES_BY_CHANCE = frozenset({"differs", "uneven-rows", "batch-norm"})
BY_CHANCE = "{name} draws at random {where}, and each of several workers draws something else than a single one"
SAME_RATE = 1e-5  # how much two learning rates may differ, relative to the larger one
GROWS_WITH_ITS_RATE = (
    "Batch by the global batch, of a size that does not depend on the number of workers. If it is meant to grow, "
    "divide the loss by the rows of all workers, and scale the learning rate with them."
)
ONE_WORKER_ARGS = (
    "If arguments of the program set them, name those with which one worker trains as all do: "
    "--one-worker-args '--batch-size 64'"
)
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


def never(nudged: bool) -> None:
    """Stand for a `Rerun` where the program can't be run again."""


@dataclass(frozen=True, slots=True)
class EqualityResult:
    """What a comparison of one worker with several has found, and why not everything could be compared.

    `why_not` is a clause; "" if everything was compared.
    """

    findings: list[ExamFinding]
    why_not: str = ""


def compared(one: Recording, several: Sequence[Recording], rerun: Rerun = never) -> EqualityResult:
    """Compare the recording of a single worker with those of several workers, with the leader's recording first.

    `rerun` is called only if the variables differ by little enough that rounding may explain it.
    """
    shared, disagreeing = [*shared_files(several)], [*agreement(several)]
    if rows := [*rows_findings(one, several)]:
        if why := _chance(one, several, rows, in_data=True):
            return EqualityResult(shared + disagreeing, why)
        return EqualityResult(shared + rows + disagreeing)
    growth = batch_growth(one, several)
    if growth is not None:
        return EqualityResult(shared + disagreeing, f"{growth.reason}. {ONE_WORKER_ARGS}")
    if why := other_order(one, several):
        return EqualityResult(shared + disagreeing, why)
    if any(finding.code not in ("workers-differ", "shared-file") for finding in disagreeing):
        return EqualityResult(shared + disagreeing)
    differing = beyond_rounding(one, several[0], rerun)
    if not differing:
        return EqualityResult(shared + disagreeing)
    found = explanation(differing, one, several)
    if found.code == "differs" and any(finding.code == "workers-differ" for finding in disagreeing):
        return EqualityResult(shared + disagreeing)  # workers that hold different values do not compute what one does
    if why := chance(one, several, found):
        return EqualityResult(shared + disagreeing, why)
    return EqualityResult([*shared, *disagreeing, found])


def equality(one: Recording, several: Sequence[Recording], rerun: Rerun = never) -> list[ExamFinding]:
    """Return the findings of `compared`."""
    return compared(one, several, rerun).findings


def beyond_rounding(one: Recording, several: Recording, rerun: Rerun) -> list[Difference]:
    """Return the first differences that rounding errors do not explain. `rerun` is called as `equality` does."""
    differing = first_differences(one, several)
    if not differing or _is_beyond_doubt(differing[0]):
        return differing
    following = one
    if any(step < differing[0].step for step in several.states if step > 0):
        # Errors of rounding have added up since step 1: begin anew with the workers' values after each recorded step.
        followed = rerun(False)
        if followed is None or not followed.followed:  # nothing tells rounding errors that have added up from mistakes
            return [each for each in differing if each.step <= FIRST_STEPS or each.distance > LARGEST]
        following = followed
        differing = first_differences(following, several)
    if not differing:
        return []
    nudged = rerun(True)
    return differing if nudged is None else first_differences(following, several, nudged)


def _is_beyond_doubt(difference: Difference) -> bool:
    return difference.step <= CERTAIN_STEPS and difference.distance >= CERTAIN


def draws(several: Sequence[Recording]) -> bool:
    """Return whether the program draws random numbers in training or in its data.

    Judge by the operations that were seen, and by the states of its random generators.
    """
    for recording in several:
        if recording.draws:
            return True
        for name, before in ({} if recording.begin is None else recording.begin.variables).items():
            after = {} if recording.end is None else recording.end.variables
            if before.kind == "random" and name in after and not is_same(before.values, after[name].values):
                return True
    return False


def chance(one: Recording, several: Sequence[Recording], found: ExamFinding) -> str:
    """Return a clause that says why a difference of the variables may be due to random draws; otherwise, return ""."""
    return _chance(one, several, [found], in_data=False)


def _chance(one: Recording, several: Sequence[Recording], found: Sequence[ExamFinding], in_data: bool) -> str:
    """Return why random draws, in the data or in the training steps, may explain all findings; otherwise, return "".

    For its part of a batch, a worker draws something else than a single process does for the whole batch. A constant
    factor between two updates does not come about by chance.
    """
    drawn = (draw for recording in (one, *several) for draw in recording.draws if draw.in_data == in_data)
    first = next(drawn, None)
    if first is None or not {finding.code for finding in found} <= (ROWS_BY_CHANCE if in_data else VALUES_BY_CHANCE):
        return ""
    where = "in the data" if in_data else "in the steps"
    return BY_CHANCE.format(name=first.name, where=where)


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
                    f"After step {leader.shown(step)}, {name} of {other.task} is not that of {leader.task}: "
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
            "Leave out AutoShardPolicy.OFF: then fit shards the data. In a loop of your own, let "
            "strategy.experimental_distribute_dataset shard one global dataset, or shard by "
            "input_context.input_pipeline_id in distribute_datasets_from_function.",
        )
        return
    growth = batch_growth(one, several)
    if growth is not None:
        if growth.rate_is_the_same:
            yield ExamFinding("global-batch", growth.mistake, GROWS_WITH_ITS_RATE)
        return
    other_steps = _other_steps(one, several)
    if other_steps is not None:
        yield other_steps
        return
    yield from _row_findings(one, several, one_counts, several_counts)


@dataclass(frozen=True, slots=True)
class BatchGrowth:
    """A global batch that grows with the workers: the rows of a step, and the learning rates if they were recorded."""

    workers: int
    alone: float
    together: float
    rates: tuple[float, float] | None  # with one worker and with several

    @property
    def rate_is_the_same(self) -> bool:
        return self.rates is not None and math.isclose(*self.rates, rel_tol=SAME_RATE)

    @property
    def sizes(self) -> str:
        return (
            f"the global batch grows with the workers: {self.alone:g} rows a step with 1 worker, {self.together:g} "
            f"with {self.workers}"
        )

    @property
    def mistake(self) -> str:
        assert self.rates is not None
        return (
            f"T{self.sizes[1:]}; the learning rate does not: it is {self.rates[0]:g} with both. The two jobs train "
            "differently, so that their results can't be compared."
        )

    @property
    def reason(self) -> str:
        """A clause that says why one worker can't be compared with several."""
        if self.rates is None:
            return f"{self.sizes}, so that the two jobs train differently"
        return (
            f"{self.sizes}, and the learning rate changes with it, {self.rates[0]:g} and {self.rates[1]:g}, so that "
            "the two jobs train differently"
        )


def batch_growth(one: Recording, several: Sequence[Recording]) -> BatchGrowth | None:
    """Return how the global batch grows with the workers; None if it does not."""
    workers = len(several)
    size, sizes = _rows_per_step([one]), _rows_per_step(several)
    if not size or sizes < 1.5 * size or abs(sizes / size - workers) >= 0.25 * workers:
        return None
    return BatchGrowth(workers, size, sizes, _learning_rates(one, several[0]))


def _learning_rates(one: Recording, several: Recording) -> tuple[float, float] | None:
    """Return the learning rates of both at a recorded step, the last one at which they differ; None if none is known.

    A warm-up begins with equal rates, or with none.
    """
    seen = [pair for step in sorted(one.states.keys() & several.states.keys()) for pair in _rates(one, several, step)]
    differing = [pair for pair in seen if not math.isclose(*pair, rel_tol=SAME_RATE)]
    return next(iter([*differing[-1:], *seen[-1:]]), None)


def _rates(one: Recording, several: Recording, step: int) -> Iterator[tuple[float, float]]:
    mine, theirs = one.states[step].variables, several.states[step].variables
    for name, variable in mine.items():
        other = theirs.get(name)
        if variable.kind == "learning-rate" and other is not None and variable.values.size == other.values.size == 1:
            rates = float(variable.values.item()), float(other.values.item())
            if all(rates):
                yield rates


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

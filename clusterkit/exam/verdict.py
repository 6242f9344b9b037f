"""The verdict of --verify: compares the recordings of a job's first steps with those of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from clusterkit.exam.bound import bound_at
from clusterkit.exam.diagnosis import explanation
from clusterkit.exam.equality import (
    GROWS_WITH_ITS_RATE,
    Rerun,
    agreement,
    batch_growth,
    beyond_rounding,
    chance,
    never,
    rows_findings,
)
from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import Recording
from clusterkit.words.model import number_of
from clusterkit.words.verification import Equality, Verification

PARAMETER_SERVERS = "parameter servers take updates as they come, so that no two runs compute the same"
ON_HOSTS = "the job runs on other hosts; run it on this machine to verify it"
NO_STEPS = "no steps were seen: the program runs none, or clusterkit can't observe them"
OTHER_ROWS = (
    "{workers} workers train on other rows in these steps than one process, as when files are divided among the workers"
)
REPORT = "One line reports them: training.report(step=step, loss=loss)"
BY_EXAM = "The exam compares whole epochs: clusterkit exam"
# If this share of the rows of some steps is trained on by two workers, and one process trains on none twice, the
# workers do not share one order of the data.
SHARED_ROWS = 0.05


def verdict(
    one: Recording | None,
    several: Sequence[Recording],
    workers: int,
    steps: int,
    rerun: Rerun = never,
) -> Verification:
    """Compare the first `steps` steps of one process and of several workers, with the leader's recording first.

    `rerun` is called as `equality` calls it.
    """
    if one is None or not several or not (one.states or one.end) or not one.last_step:
        return not_comparable(NO_STEPS, REPORT)
    if len(several) < workers or not all(recording.last_step for recording in several):
        return not_comparable("no steps were seen in some of the workers")
    compared = min(steps, *(recording.last_step or 0 for recording in (one, *several)))
    found = [*agreement(several), *_rows(one, several)]
    growth = batch_growth(one, several)
    if growth is not None and not found:
        return not_comparable(growth.reason, GROWS_WITH_ITS_RATE if growth.rate_is_the_same else "")
    if found:
        return _different(found[0], one, compared)
    if _trains_on_other_rows(one, several):
        return not_comparable(OTHER_ROWS.format(workers=workers), BY_EXAM)
    if differing := beyond_rounding(one, several[0], rerun):
        found_first = explanation(differing, one, several)
        if why := chance(one, several, found_first):
            return not_comparable(why, BY_EXAM)
        return _different(found_first, one, compared)
    if different := _logs(one, several):
        return _different(different, one, compared)
    return Verification(Equality.EQUAL, compared)


def not_comparable(why: str, remedy: str = "") -> Verification:
    """Return the verdict if nothing could be compared; `why` is a clause."""
    return Verification(Equality.NOT_COMPARABLE, 0, why, remedy)


def _different(found: ExamFinding, one: Recording, steps: int) -> Verification:
    return Verification(Equality.DIFFERENT, steps, found.text, found.remedy, one.place)


def _rows(one: Recording, several: Sequence[Recording]) -> Iterator[ExamFinding]:
    """Yield findings about rows that are mistakes in any order of the data.

    Rows that are missed or repeated count only in whole epochs, which the first steps are not.
    """
    whole = [finding for finding in rows_findings(one, several) if finding.code == "same-rows"]
    yield from whole
    if whole or batch_growth(one, several) is not None or not _trains_on_other_rows(one, several):
        return
    owners = Counter(row for recording in several for row in recording.counted_rows())
    shared = sum(1 for count in owners.values() if count > 1)
    if max(one.counted_rows().values(), default=0) == 1 and shared >= max(2, SHARED_ROWS * len(owners)):
        yield ExamFinding(
            "rows-repeated",
            f"{number_of('row', shared)} of {len(owners)} are trained on by more than one worker, and one process "
            "trains on none twice: each worker has an order of its own, and keeps its part.",
            "Let all workers make, split and shuffle the data with the same seed before they shard it, by "
            "keras.utils.set_random_seed(seed) or numpy.random.default_rng(seed).",
        )


def _trains_on_other_rows(one: Recording, several: Sequence[Recording]) -> bool:
    """Return whether one process and the workers train on different rows in a step. False if rows are not recorded."""
    if not one.rows or not all(recording.rows for recording in several):
        return False
    steps = one.rows.keys() & several[0].rows.keys()
    together = {step: [row for each in several for row in each.rows.get(step, ())] for step in steps}
    return any(Counter(one.rows[step]) != Counter(together[step]) for step in steps)


def _logs(one: Recording, several: Sequence[Recording]) -> ExamFinding | None:
    """Return a finding if the loss that `fit` logs is neither that of one process nor, on average, that of the workers.

    Without clusterkit's patches, Keras logs the loss of each worker's own rows, which is no mistake of the program.
    """
    for step in sorted(one.losses.keys() & several[0].losses.keys()):
        mine, theirs = one.losses[step], [each.losses[step] for each in several if step in each.losses]
        allowed = 10 * bound_at(step, one.precision) * max(abs(mine), 1e-6)
        if min(abs(theirs[0] - mine), abs(sum(theirs) / len(theirs) - mine)) > allowed:
            return ExamFinding(
                "logs-differ",
                f"The logged loss of step {step} is {theirs[0]:.6g} with {len(several)} workers, and {mine:.6g} in one "
                "process, although the weights are equal.",
                "Divide the loss by the global batch, and let strategy.reduce or Keras add it up.",
            )
    return None

"""Finds out on which rows a resumed attempt trained in place of those of an uninterrupted run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import Recording
from clusterkit.words.model import number_of

SHIFTED = 5  # the number of steps whose rows have to be those of other steps at the same distance
_SKIP = (
    "Skip the batches that were trained, as in dataset.skip(step) for data that is repeated in one order; for fit, "
    "training.Backup() does. A checkpoint can also hold the iterator of a dataset, but not of a distributed one."
)
_ORDER_OF_EPOCH = (
    "Let the order of an epoch follow from the epoch's number in the whole training, which the checkpoint knows, as in "
    "numpy.random.default_rng([seed, epoch]); a count that begins with the process, or a generator that is not saved, "
    "begins anew."
)
_NOISE = "Noise that is added to rows needs a generator that is saved with the checkpoint, or a seed for each step."


def position_findings(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    """Yield a finding if the resumed attempt trained on different rows than the uninterrupted run in the same step."""
    steps = sorted(continued.rows)[continues_inside_a_step(unbroken, continued) :]
    wrong = [step for step in steps if step in unbroken.rows and continued.rows[step] != unbroken.rows[step]]
    if not wrong:
        return
    if any(draw.in_data for draw in unbroken.draws) and not _begins_inside_an_epoch(unbroken, continued, wrong):
        return  # the rows may be the same, with other values: those that were drawn for rows of an earlier step
    how, remedy = _other_rows(unbroken, continued, wrong)
    yield ExamFinding(
        "data-position",
        f"At step {unbroken.shown(wrong[0])} the continued run did not train on the rows of the unbroken one: {how}.",
        remedy,
    )


def continues_inside_a_step(unbroken: Recording, continued: Recording) -> bool:
    """Return whether an attempt continued between two batches whose gradients are applied together.

    The rows of its first step are then the last ones of that step's rows.
    """
    first = min(continued.rows, default=0)
    wanted, trained = unbroken.rows.get(first, ()), continued.rows.get(first, ())
    return 0 < len(trained) < len(wanted) and wanted[-len(trained) :] == trained


def _begins_inside_an_epoch(unbroken: Recording, continued: Recording, wrong: Sequence[int]) -> bool:
    """Return whether the continued run began the data anew at a step at which no epoch begins."""
    behind = _steps_behind(unbroken, continued, wrong[:SHIFTED])
    return behind is not None and wrong[0] - behind == min(unbroken.rows) and behind not in unbroken.epoch_ends.values()


def _other_rows(unbroken: Recording, continued: Recording, wrong: Sequence[int]) -> tuple[str, str]:
    """Return a clause that says which rows the continued run trained on in the wrong steps, and the remedy for it."""
    first = wrong[0]
    behind = _steps_behind(unbroken, continued, wrong[:SHIFTED])
    epoch = _epoch_length(unbroken)
    if behind is not None and first - behind == min(unbroken.rows):
        # At the begin of an epoch, nobody can tell data that began anew from an order that did.
        remedy = f"{_SKIP} {_ORDER_OF_EPOCH}" if epoch and behind % epoch == 0 else _SKIP
        return "it began the data anew", remedy
    if behind is not None and epoch and behind % epoch == 0:
        count = number_of("epoch", abs(behind) // epoch)
        when = "earlier" if behind > 0 else "later"
        return f"these are the rows of step {first - behind}, in the order of {count} {when}", _ORDER_OF_EPOCH
    if behind is not None:
        where = "behind" if behind > 0 else "ahead"
        rows = f"these are the rows of step {first - behind}"
        return f"{rows}, so that it is {number_of('step', abs(behind))} {where}", _SKIP
    known = set(unbroken.counted_rows())
    if all(row in known for step in wrong for row in continued.rows[step]):
        return "these are rows of the same data, in an order that the unbroken run never had", _ORDER_OF_EPOCH
    return "these rows, or their values, are not among those of the unbroken run", _NOISE


def _steps_behind(unbroken: Recording, continued: Recording, wrong: Sequence[int]) -> int | None:
    """Return by how many steps the rows of all wrong steps are those of earlier steps; None if there is no such number.

    A negative number stands for later steps.
    """
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for step, rows in unbroken.rows.items():
        places[rows].append(step)
    shifts = [{step - place for place in places.get(continued.rows[step], ())} for step in wrong]
    common = set.intersection(*shifts)
    return min(common, key=abs, default=None)


def _epoch_length(recording: Recording) -> int | None:
    """Return the number of steps until the first row comes again; None if no row does."""
    seen: set[str] = set()
    for number, step in enumerate(sorted(recording.rows)):
        if not seen.isdisjoint(recording.rows[step]):
            return number
        seen.update(recording.rows[step])
    return None

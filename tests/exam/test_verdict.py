"""The verdict of --verify on what one process and two workers recorded of the first steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from clusterkit.exam.recording import Recording, Values, Variable, VariableState
from clusterkit.exam.verdict import verdict
from clusterkit.words.model import Task, TaskType
from clusterkit.words.verification import Equality, Verification

RNG = np.random.default_rng(5)
GRADIENT, BEFORE = (RNG.normal(size=(4, 3)).astype("float32") for _ in range(2))
ROWS = [f"row {number}" for number in range(40)]
DIFFERENT, EQUAL, NOT_COMPARABLE = Equality.DIFFERENT, Equality.EQUAL, Equality.NOT_COMPARABLE


def recorded(index: int, factor: float, rows: Sequence[Sequence[str]], loss: float = 1.0) -> Recording:
    """A worker's record of two steps, with a gradient that is larger by a factor, and the rows of each step."""

    def state(step: int) -> VariableState:
        values: Values = BEFORE - np.float32(0.1 * step * factor) * GRADIENT
        return VariableState(step, {"kernel": Variable("weight", False, values)})

    states = {step: state(step) for step in (0, 1, 2)}
    taken = {step: tuple(each) for step, each in enumerate(rows, 1)}
    one = Recording(Task(TaskType.WORKER, index), 1, states, states[0], states[2], rows=taken)
    one.losses, one.place = {1: loss, 2: loss}, "train.py, line 9"
    return one


def found(
    *factors: float, rows: Sequence[Sequence[Sequence[str]]], losses: Sequence[float] = (1, 1, 1)
) -> Verification:
    """The verdict on one process and two workers, in this order, with the steps' rows of each."""
    one, *several = (
        recorded(max(place - 1, 0), factor, mine, loss)
        for place, (factor, mine, loss) in enumerate(zip(factors, rows, losses, strict=True))
    )
    return verdict(one, several, 2, 2)


WHOLE = [ROWS[:8], ROWS[8:16]]
FIRST, SECOND = [ROWS[:4], ROWS[8:12]], [ROWS[4:8], ROWS[12:16]]


@pytest.mark.parametrize(
    ("factors", "rows", "equality", "words"),
    [
        ((1, 1, 1), (WHOLE, FIRST, SECOND), EQUAL, ""),
        ((1, 1, 1), ([], [], []), EQUAL, ""),
        ((1, 1 + 1e-5, 1 + 1e-5), (WHOLE, FIRST, SECOND), EQUAL, ""),
        ((1, 1.001, 1.001), (WHOLE, FIRST, SECOND), DIFFERENT, "kernel differs first, after step 1"),
        ((1, 2, 2), (WHOLE, FIRST, SECOND), DIFFERENT, "2 times too large"),
        ((1, 0.5, 0.5), (WHOLE, FIRST, SECOND), DIFFERENT, "averaged over the 2 workers twice"),
        ((1, 1, 1.1), (WHOLE, FIRST, SECOND), DIFFERENT, "kernel of worker:1 is not that of worker:0"),
        ((1, 1, 1), (WHOLE, FIRST, FIRST), DIFFERENT, "train on the same rows"),
        ((1, 2, 2), (WHOLE, WHOLE, [ROWS[16:24], ROWS[24:32]]), NOT_COMPARABLE, "batch grows with the workers"),
        ((1, 2, 2), (WHOLE, FIRST, [ROWS[24:28], ROWS[28:32]]), NOT_COMPARABLE, "train on other rows"),
        ((1, 2, 2), (WHOLE, FIRST, [ROWS[8:12], ROWS[28:32]]), DIFFERENT, "4 rows of 12"),
    ],
)
def test_the_verdict(
    factors: Sequence[float], rows: Sequence[Sequence[Sequence[str]]], equality: Equality, words: str
) -> None:
    """Weights, workers and rows; what may be the order of the data is not held against a program."""
    given = found(*factors, rows=rows)
    assert given.equality is equality
    assert words in given.text
    assert given.place == ("train.py, line 9" if given.differs else "")
    assert given.steps == (0 if equality is NOT_COMPARABLE else 2)


@pytest.mark.parametrize(
    ("losses", "equality"), [((1, 1, 1), EQUAL), ((1, 0.5, 1.5), EQUAL), ((1, 1, 9), EQUAL), ((1, 2, 2), DIFFERENT)]
)
def test_logs(losses: Sequence[float], equality: Equality) -> None:
    """The loss that is logged is that of the whole batch, or the mean of the workers' is."""
    assert found(1, 1, 1, rows=(WHOLE, FIRST, SECOND), losses=losses).equality is equality


def test_nothing_to_compare() -> None:
    """No record, a worker without one, or one without steps."""
    one, empty = recorded(0, 1, WHOLE), Recording(Task(TaskType.WORKER, 1), 1)
    assert verdict(None, [], 2, 5).equality is NOT_COMPARABLE
    assert verdict(one, [one], 2, 5).equality is NOT_COMPARABLE
    assert verdict(one, [one, empty], 2, 5).equality is NOT_COMPARABLE
    assert verdict(empty, [one, one], 2, 5).text.startswith("no steps were seen")


def test_fewer_steps_than_were_requested() -> None:
    """The verdict says how many were compared."""
    one, several = recorded(0, 1, WHOLE), [recorded(0, 1, FIRST), recorded(1, 1, SECOND)]
    assert verdict(one, several, 2, 20) == Verification(EQUAL, 2)

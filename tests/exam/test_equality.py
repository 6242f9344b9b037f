"""What kind of mistake explains that one worker and several do not compute the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from clusterkit.exam.equality import agreement, equality, other_order
from clusterkit.exam.recording import Recording, Values, Variable, VariableState
from clusterkit.words.model import Task, TaskType

RNG = np.random.default_rng(7)
GRADIENT = RNG.normal(size=(4, 3)).astype("float32")
BEFORE = RNG.normal(size=(4, 3)).astype("float32")
ROWS = [f"{number:016x}" for number in range(8)]


def recording(
    index: int,
    weights: Mapping[int, Values],
    rows: Mapping[int, list[str]] | None = None,
    more: Mapping[str, tuple[str, Values]] | None = None,
) -> Recording:
    """What a worker recorded: the weights after some steps, other variables after step 1, and the rows of each step."""
    states = {
        step: VariableState(step, {"kernel": Variable("weight", False, values)}) for step, values in weights.items()
    }
    if more and 1 in states:
        others = {name: Variable(kind, False, values) for name, (kind, values) in more.items()}
        states[1] = VariableState(1, {**states[1].variables, **others})
    taken = {step: tuple(each) for step, each in (rows or {}).items()}
    return Recording(Task(TaskType.WORKER, index), 1, states, states.get(0), rows=taken)


def trained(factor: float, noise: float = 0.0) -> dict[int, Values]:
    """The weights before and after a step of plain gradient descent with a gradient that is larger by a factor."""
    step = GRADIENT * np.float32(factor) + RNG.normal(size=GRADIENT.shape).astype("float32") * np.float32(noise)
    return {0: BEFORE, 1: BEFORE - np.float32(0.1) * step}


def codes(one: Recording, *several: Recording) -> list[str]:
    """The codes of what is found."""
    return [finding.code for finding in equality(one, several)]


@pytest.mark.parametrize(
    ("factor", "noise", "found"),
    [
        (1.0, 0.0, []),
        (1.0, 1e-5, []),  # rounding
        (1.0, 1e-3, ["differs"]),
        (2.0, 0.0, ["loss-summed"]),
        (2.0, 1e-3, ["loss-summed"]),
        (0.5, 0.0, ["averaged-twice"]),
        (1.5, 0.0, ["differs"]),
        (1.0, 0.5, ["differs"]),
        (4.0, 0.0, ["differs"]),
    ],
)
def test_a_constant_factor_is_named(factor: float, noise: float, found: list[str]) -> None:
    """Twice with two workers, or half; anything else has no name."""
    theirs = trained(factor, noise)
    assert codes(recording(0, trained(1.0)), recording(0, theirs), recording(1, theirs)) == found


@pytest.mark.parametrize(
    ("count", "said"), [(0, "of its update. No"), (1, "so does 1 other. No"), (2, "so do 2 others. No")]
)
def test_other_variables_are_counted(count: int, said: str) -> None:
    """None of them is not mentioned."""
    here = {f"other{number}": ("weight", GRADIENT) for number in range(count)}
    there = {name: (kind, values * np.float32(1.5)) for name, (kind, values) in here.items()}
    theirs = trained(1.0, 0.5)
    workers = [recording(index, theirs, more=there) for index in (0, 1)]
    (finding,) = equality(recording(0, trained(1.0), more=here), workers)
    assert said in finding.text


def test_rows_that_each_worker_prepares_in_its_own_way_are_named() -> None:
    """As many as one worker's, and none with the same values: not a matter of sharding."""
    names = [f"row {number}" for number in range(8)]
    several = [recording(index, trained(1.0), {1: [f"{index} {name}" for name in names[:4]]}) for index in (0, 1)]
    assert codes(recording(0, trained(1.0), {1: names}), *several) == ["rows-differ"]


@pytest.mark.parametrize(
    ("rows", "others", "code"),
    [(8, 8, "differs"), (8, 7, "uneven-rows"), (0, 0, "differs")],
)
def test_an_uneven_step_is_named(rows: int, others: int, code: str) -> None:
    """If it is the first after which a variable differs by no constant factor."""
    names = [f"row {number}" for number in range(rows + others)]
    theirs = trained(1.5)
    several = recording(0, theirs, {1: names[:rows]}), recording(1, theirs, {1: names[rows:]})
    assert codes(recording(0, trained(1.0), {1: names}), *several) == [code]


def test_an_optimizer_that_ignores_the_size_of_gradients_shows_it_in_its_slots() -> None:
    """Adam's weights are equal; its slots are larger by the factor and by its square."""
    slots = {"m": ("optimizer", GRADIENT), "v": ("optimizer", GRADIENT**2)}
    twice = {"m": ("optimizer", GRADIENT * 2), "v": ("optimizer", GRADIENT**2 * 4)}
    same = trained(1.0)
    workers = [recording(index, same, more=twice) for index in (0, 1)]
    assert codes(recording(0, same, more=slots), *workers) == ["loss-summed"]


def test_batch_normalization_is_named_before_what_follows_from_it() -> None:
    """Its averages differ, and so do the weights."""
    mean = {"mean": ("batch-norm", GRADIENT)}
    other = {"mean": ("batch-norm", GRADIENT * 1.3)}
    theirs = trained(1.0, 0.5)
    found = codes(recording(0, trained(1.0), more=mean), *(recording(index, theirs, more=other) for index in (0, 1)))
    assert found == ["batch-norm"]


A, B, C, D = ROWS[:2], ROWS[2:4], ROWS[4:6], ROWS[6:8]


@pytest.mark.parametrize(
    ("alone", "first", "second", "found"),
    [
        ([A + B, C + D], [A, C], [B, D], []),
        ([A + B, C + D], [B, C], [A, D], []),
        ([A + B, C + D], [A + B, C + D], [A + B, C + D], ["same-rows"]),
        ([A, B, C, D], [A, C], [B, D], ["global-batch"]),
        ([A + B, C + D], [A, C], [B, B], ["rows-missed", "rows-repeated"]),
        ([A + B, C + D], [A], [B], ["rows-missed"]),
        ([A + B, C + D], [A, C, A], [B, D, B], ["rows-repeated"]),
        ([], [A], [B], []),  # nothing was counted
    ],
)
def test_rows(alone: list[list[str]], first: list[list[str]], second: list[list[str]], found: list[str]) -> None:
    """Rows of two workers, step by step, against those of one."""
    everyone = [dict(enumerate(rows, 1)) for rows in (alone, first, second)]
    one, *several = (recording(max(0, at - 1), trained(1.0), rows) for at, rows in enumerate(everyone))
    assert codes(one, *several) == found


def test_rows_that_are_shuffled_in_each_worker_are_lost() -> None:
    """Some are read twice instead: the advice is a seed; it is given once."""
    steps = {1: A + B, 2: C + D}, {1: A, 2: C}, {1: B, 2: B}
    one, *several = (recording(max(0, at - 1), trained(1.0), rows) for at, rows in enumerate(steps))
    missed, repeated = equality(one, several)
    assert missed.text.startswith("Rows are lost: 2 workers train on 2 of 8 rows never, unlike 1 worker")
    assert "with the same seed" in missed.remedy
    assert (repeated.text, repeated.remedy) == ("2 workers train on 2 rows more often than 1 worker.", "")


@pytest.mark.parametrize(
    ("alone", "first", "second", "is_other"),
    [
        ([A + B, C + D], [A, C], [B, D], False),
        ([A + B, C + D], [B, D], [A, C], False),
        ([A + B, C + D], [A, B], [C, D], True),  # each has a file of its own
        ([A + B, C + D, A + B], [A, B, A], [C, D, C], True),  # likewise, and the second epoch has not ended
        ([A + B, C + D], [A, C], [B, B], False),  # not the same rows
        ([A + B, C + D], [A, C, A], [B, D, B], False),  # more of them
        ([], [], [], False),
    ],
)
def test_the_same_rows_in_another_order_are_no_mistake(
    alone: list[list[str]], first: list[list[str]], second: list[list[str]], is_other: bool
) -> None:
    """But nothing can be compared then."""
    everyone = [dict(enumerate(rows, 1)) for rows in (alone, first, second)]
    one, *several = (recording(at, trained(at), rows) for at, rows in enumerate(everyone))
    assert bool(other_order(one, several)) == is_other
    if is_other:
        assert codes(one, *several) == ["workers-differ"]  # what workers owe each other can be told


@pytest.mark.parametrize(
    ("kind", "on_read", "differs"),
    [("weight", False, True), ("optimizer", False, True), ("batch-norm", True, False), ("metric", False, False)],
)
def test_workers_that_do_not_agree(kind: str, on_read: bool, differs: bool) -> None:
    """Only in what a gang has to have in common."""
    mine, theirs = (
        Recording(Task(TaskType.WORKER, index), 1, {3: VariableState(3, {"x": Variable(kind, on_read, values)})})
        for index, values in enumerate((BEFORE, BEFORE + np.float32(0.01)))
    )
    found = list(agreement([mine, theirs]))
    assert [finding.code for finding in found] == ["workers-differ"] * differs
    assert all("worker:1" in finding.text and "step 3" in finding.text for finding in found)


def test_values_that_are_no_numbers_or_of_other_shapes_do_not_raise() -> None:
    """A program may have anything in its variables."""
    strange = [np.array([np.nan, np.inf]), np.array([], "float32"), np.array(["a"]), np.zeros((3, 3), "float16")]
    for a in strange:
        for b in strange:
            one, other = (recording(0, {0: a, 1: values}) for values in (a, b))
            equality(one, [other, other])

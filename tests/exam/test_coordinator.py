"""What a coordinator continues with, compared with what its checkpoint held when it was saved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from clusterkit.exam.coordinator import continuation
from clusterkit.exam.recording import CoordinatorSave, Recording, Variable, VariableState
from clusterkit.words.model import Task, TaskType

CHIEF = Task(TaskType.CHIEF, 0)
Values = Mapping[str, tuple[str, float]]
BEGIN: Values = {"kernel": ("weight", 0), "bias": ("weight", 0), "slot": ("optimizer", 0), "count": ("counter", 0)}
SAVED: Values = {"kernel": ("weight", 1), "bias": ("weight", 2), "slot": ("optimizer", 3), "count": ("counter", 20)}
LATER: Values = {"kernel": ("weight", 4), "bias": ("weight", 5), "slot": ("optimizer", 6), "count": ("counter", 40)}


def state(values: Values, size: int = 3) -> VariableState:
    """A state whose variables have this size, and the same number everywhere."""
    return VariableState(0, {name: Variable(kind, False, np.full(size, at)) for name, (kind, at) in values.items()})


def broken(*saves: CoordinatorSave, first: Values = BEGIN) -> Recording:
    """The attempt that was interrupted."""
    return Recording(CHIEF, 1, first=state(first), saves=list(saves))


def continued(values: Values, scheduled: int = 40) -> Recording:
    """The attempt that continued with these values."""
    return Recording(CHIEF, 2, first=state(values), scheduled=scheduled)


TWO = (CoordinatorSave(20, 0, state(SAVED)), CoordinatorSave(40, 0, state(LATER)))


@pytest.mark.parametrize(
    ("begun", "codes"),
    [
        (LATER, []),
        (SAVED, []),  # the newest one may have been damaged
        ({**LATER, "slot": ("optimizer", 0)}, ["optimizer"]),
        ({**LATER, "slot": ("optimizer", 0), "count": ("counter", 0)}, ["optimizer", "counter"]),
        ({**LATER, "bias": ("weight", 0)}, ["weights"]),
        ({**LATER, "kernel": ("weight", 30), "bias": ("weight", 30)}, ["weights"]),
        (BEGIN, ["began-anew"]),
        ({**BEGIN, "slot": ("optimizer", 6)}, ["began-anew"]),
        ({name: value for name, value in LATER.items() if name != "slot"}, []),  # made later: nobody saw it
    ],
)
def test_what_was_forgotten(begun: Values, codes: list[str]) -> None:
    """Of each kind that is not what it was at any save, the first variable is named."""
    found = continuation(60, broken(*TWO), continued(begun))
    assert [one.code for one in found] == codes
    assert all(one.remedy for one in found)


def test_what_is_left_out() -> None:
    """The learning rate, random states, metrics, and a sum that the program prints beside larger weights."""
    more: Values = {"rate": ("learning-rate", 1), "seed": ("random", 1), "mean": ("metric", 1), "own": ("other", 1)}
    other: Values = {name: (kind, 2) for name, (kind, _) in more.items()}
    begun = state({**LATER, **other})
    saved = state({**LATER, **more})
    assert isinstance(begun.variables, dict)
    assert isinstance(saved.variables, dict)
    begun.variables["total"] = Variable("weight", False, np.zeros(()))
    saved.variables["total"] = Variable("weight", False, np.ones(()))
    after = Recording(CHIEF, 2, first=begun, scheduled=20)
    assert not continuation(60, broken(CoordinatorSave(40, 0, saved)), after)
    single = broken(CoordinatorSave(40, 0, state(LATER, size=1)))
    begun = state({**LATER, "kernel": ("weight", 0)}, size=1)
    found = continuation(60, single, Recording(CHIEF, 2, first=begun, scheduled=20))
    assert [one.code for one in found] == ["weights"], "the weights of a small model are no sums"


def test_a_save_before_join() -> None:
    """What is lost is told; the checkpoint counts functions as run that had not ended."""
    attempt = broken(CoordinatorSave(20, 10, state(BEGIN)), CoordinatorSave(40, 10, state(SAVED)))
    attempt.changed_after_save = {20: "kernel", 40: "kernel"}
    (found,) = continuation(60, attempt, continued(SAVED, scheduled=20))
    assert found.code == "saved-before-join"
    assert not continuation(60, attempt, continued(SAVED, scheduled=30)), "it goes on with the 30 that it has saved"
    assert not continuation(60, attempt, continued(LATER, scheduled=20)), "nobody saw from which save it continued"
    assert "had scheduled 40 functions, and 10 of them had not ended" in found.text
    assert "10 updates are lost" in found.text
    assert "coordinator.join()" in found.remedy


@pytest.mark.parametrize(
    ("total", "scheduled", "pending", "changed"),
    [
        (60, 30, (10, 10), {20: "kernel", 40: "kernel"}),  # it repeats what the checkpoint lacks
        (None, 20, (10, 10), {40: "kernel"}),  # runs do not schedule equally many
        (60, 20, (10, 10), {}),  # what ended later changed nothing, as an evaluation does
        (60, 20, (10, 0), {20: "kernel"}),  # the program continued from the second checkpoint
        (60, 60, (10, 10), {20: "kernel", 40: "kernel"}),  # it began anew
    ],
)
def test_nothing_is_lost(total: int | None, scheduled: int, pending: tuple[int, int], changed: dict[int, str]) -> None:
    """A program that saves before join may count what it has saved."""
    attempt = broken(CoordinatorSave(20, pending[0], state(BEGIN)), CoordinatorSave(40, pending[1], state(SAVED)))
    attempt.changed_after_save = changed
    assert not continuation(total, attempt, continued(SAVED, scheduled=scheduled))


def test_nothing_was_seen() -> None:
    """Without a save, or without a first state, there is nothing to say."""
    assert not continuation(60, broken(), continued(SAVED))
    assert not continuation(60, broken(*TWO), Recording(CHIEF, 2))

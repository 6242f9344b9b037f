"""Recordings that are cut off, and the last states that two recordings share."""

from __future__ import annotations

import numpy as np

from clusterkit.exam.clipping import cut_off, last_common
from clusterkit.exam.recording import Recording, Variable, VariableState
from clusterkit.exam.resume import resumption
from clusterkit.words.model import Task, TaskType

TASK = Task(TaskType.WORKER, 0)


def state(step: int, off: float = 0.0) -> VariableState:
    """The state after a step: a weight that is the step, or off by so much."""
    return VariableState(step, {"w": Variable("weight", False, np.array([step + off]))})


def recording(first: int, last: int, *, ends: bool = True, off: float = 0.0) -> Recording:
    """A run from one step to another, with the state after each."""
    return Recording(
        TASK,
        1,
        states={step: state(step, off) for step in range(first, last + 1)},
        begin=state(first, off),
        end=state(last, off) if ends else None,
        rows={step: (f"row {step}",) for step in range(first + 1, last + 1)},
        callbacks={"EarlyStopping.wait": float(last)},
    )


def test_what_is_cut_off_equals_what_ended_there() -> None:
    """A run that continued at step 5 and was ended after step 8 has nothing to answer for."""
    unbroken, continued = recording(0, 20), recording(5, 8)
    continued.callbacks["EarlyStopping.wait"] = 8.0
    assert [one.code for one in resumption(unbroken, continued)][:1] == ["epoch"]  # without the cut
    assert resumption(cut_off(unbroken, 8), cut_off(continued, 8)) == []


def test_what_differs_before_the_cut_is_found() -> None:
    """In the state at the continuation, in rows, and in the last state."""
    unbroken = cut_off(recording(0, 20), 8)
    assert [one.code for one in resumption(unbroken, cut_off(recording(5, 8, off=0.5), 8))] == ["weights"]
    other_rows = recording(5, 8)
    other_rows.rows[7] = ("row 3",)
    assert [one.code for one in resumption(unbroken, cut_off(other_rows, 8))] == ["data-position"]
    drifted = recording(5, 8)
    drifted.states[8] = state(8, 0.25)
    assert [one.code for one in resumption(unbroken, cut_off(drifted, 8))] == ["differs"]
    assert [one.code for one in resumption(unbroken, cut_off(recording(5, 7), 8))] == ["epoch"]  # it ended before


def test_the_last_states_that_two_runs_share() -> None:
    """The ends, or the newest step that both have recorded."""
    whole, early = recording(0, 20), recording(0, 8, ends=False)
    assert last_common(whole, whole) == (whole.end, whole.end)
    ours, theirs = last_common(early, whole) or (None, None)
    assert ours is not None
    assert theirs is not None
    assert (ours.step, theirs.step) == (8, 8)
    assert last_common(Recording(TASK, 1), whole) is None

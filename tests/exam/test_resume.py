"""What a continued training has forgotten."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from clusterkit.exam.recording import Draw, Recording, Variable, VariableState
from clusterkit.exam.resume import chance_note, resumption, resumption_by_others
from clusterkit.words.model import Task, TaskType

WORKER = Task(TaskType.WORKER, 0)
KINDS = ("weight", "optimizer", "counter", "learning-rate", "random", "batch-norm", "other")


def state(step: int, *changed: str) -> VariableState:
    """The variables after a step, one of each kind; those of the kinds that are named have another value."""
    return VariableState(
        step, {kind: Variable(kind, False, np.array([step + 0.5 * (kind in changed)], "float32")) for kind in KINDS}
    )


def unbroken() -> Recording:
    """Twelve steps, with the state recorded after each."""
    return Recording(
        WORKER, 1, {step: state(step) for step in range(13)}, state(0), state(12),
        {step: (f"row {step}",) for step in range(1, 13)}, {"EarlyStopping.best": 0.25},
        {0: {"loss": 2.0}, 1: {"loss": 1.0}},
    )  # fmt: skip


def continued(**changes: Any) -> Recording:
    """A second attempt, which continued at step 6."""
    whole = unbroken()
    right = dataclasses.replace(
        whole, attempt=2, begin=state(6), states={step: state(step) for step in range(7, 13)},
        rows={step: rows for step, rows in whole.rows.items() if step > 6}, logs={1: {"loss": 1.0}},
    )  # fmt: skip
    return dataclasses.replace(right, **changes)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"begin": state(6, "weight")}, ["weights"]),
        ({"begin": state(6, "optimizer")}, ["optimizer"]),
        ({"begin": state(6, "optimizer", "counter")}, ["optimizer", "counter"]),
        ({"begin": state(6, "learning-rate")}, []),  # set before each step: it is right after the next one
        ({"begin": state(6, "learning-rate"), "states": {7: state(7, "learning-rate")}}, ["learning-rate"]),
        ({"begin": state(6, "learning-rate"), "states": {}}, ["learning-rate"]),
        ({"begin": state(6, "random")}, ["random-state"]),
        ({"begin": state(6, "other")}, []),
        ({"begin": state(0)}, ["began-anew"]),
        ({"begin": state(0, "weight")}, ["counter"]),
        ({"begin": dataclasses.replace(state(6, "optimizer"), step=0)}, ["optimizer"]),
        ({"rows": {7: ("row 1",), 8: ("row 2",)}}, ["epoch", "data-position"]),
        ({"rows": dict.fromkeys(range(7, 13), ("row 1",))}, ["data-position"]),
        ({"end": state(16)}, ["epoch"]),
        ({"callbacks": {"EarlyStopping.best": 0.5}}, ["callbacks"]),
        ({"logs": {1: {"loss": 1.5}}}, ["metrics"]),
        ({"end": state(12, "weight")}, ["differs"]),
        ({"begin": None}, []),
    ],
)
def test_what_was_forgotten(changes: dict[str, Any], found: list[str]) -> None:
    """By the state at the continuation, the rows, the steps, the callbacks, the metrics and the end."""
    changed = continued(**changes)
    if "rows" in changes and max(changes["rows"]) < 12:
        changed = dataclasses.replace(changed, end=None, states={})
    assert [finding.code for finding in resumption(unbroken(), changed)] == found


def test_the_variable_and_the_step_are_named() -> None:
    """So that the line of the program can be found."""
    (finding,) = resumption(unbroken(), continued(begin=state(6, "optimizer")))
    assert "step 6" in finding.text
    assert "optimizer" in finding.text
    assert finding.remedy


@pytest.mark.parametrize(("logs", "is_fit"), [({0: {"loss": 2.0}}, True), ({}, False)])
def test_a_program_that_calls_fit_is_advised_to_use_backup(logs: dict[int, dict[str, float]], is_fit: bool) -> None:
    """Only `fit` has logs of epochs; a loop of its own restores a checkpoint."""
    (finding,) = resumption(dataclasses.replace(unbroken(), logs=logs), continued(begin=state(0)))
    assert ("Backup() to the callbacks of fit" in finding.remedy) == is_fit
    assert ("checkpoint.restore(" in finding.remedy) != is_fit


def test_data_that_began_anew_is_told_from_other_data() -> None:
    """The first rows are those of step 1."""
    rows = {step: (f"row {step - 6}",) for step in range(7, 13)}
    (finding,) = resumption(unbroken(), continued(rows=rows))
    assert "began the data anew" in finding.text


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"rows": {7: ("row 1",)}, "end": state(12, "weight"), "logs": {1: {"loss": 9.0}}}, []),
        ({"begin": state(6, "random")}, []),
        ({"begin": state(6, "learning-rate")}, []),
        ({"begin": state(6, "optimizer")}, ["optimizer"]),
        ({"begin": state(0)}, ["began-anew"]),
        ({"end": state(16), "rows": {7: ("row 1", "row 2")}}, ["epoch"]),
        ({"end": state(16), "rows": {}}, ["epoch"]),
        ({"end": state(16), "rows": {7: ("row 1",)}}, []),  # as many rows for each worker: the global batch grows
    ],
)
def test_what_another_number_of_workers_must_not_have_forgotten(changes: dict[str, Any], found: list[str]) -> None:
    """Its rows, rounding, generators and learning rate are its own; its other state and its last step are not."""
    assert [finding.code for finding in resumption_by_others(unbroken(), continued(**changes))] == found


IN_STEPS, IN_DATA = Draw("Noise noise", False, True), Draw("the operation random_uniform", True, True)
SAVED = Draw("Dropout dropout", False, False)


@pytest.mark.parametrize(
    ("draw", "changes", "found"),
    [
        (IN_STEPS, {"end": state(12, "weight")}, []),
        (IN_STEPS, {"logs": {1: {"loss": 1.1}}}, []),
        (IN_STEPS, {"begin": state(6, "weight")}, ["weights"]),  # what was restored does not depend on later draws
        (IN_STEPS, {"rows": {7: ("another",)}}, ["data-position"]),
        (IN_DATA, {"rows": {step: (f"other {step}",) for step in range(7, 13)}}, []),
        (IN_DATA, {"rows": {step: (f"row {step - 6}",) for step in range(7, 13)}}, ["data-position"]),
        (SAVED, {"end": state(12, "weight")}, ["differs"]),  # a checkpoint holds its state
        (SAVED, {"rows": {step: (f"other {step}",) for step in range(7, 13)}}, ["data-position"]),
    ],
)
def test_draws_whose_state_no_checkpoint_holds_are_not_compared(
    draw: Draw, changes: dict[str, Any], found: list[str]
) -> None:
    """The state at the continuation is; and data that begin anew are told."""
    whole = unbroken()
    whole.draws = [draw]
    assert [finding.code for finding in resumption(whole, continued(**changes))] == found
    assert ("draws at random" in chance_note(whole)) == draw.is_stateful


def accumulated(begun: int, first: tuple[str, ...], **changes: Any) -> tuple[Recording, Recording]:
    """An unbroken run of four steps of three batches each, and one that continued with some batches of a step."""
    batches = {step: tuple(f"row {step}.{batch}" for batch in range(3)) for step in range(1, 5)}
    whole = Recording(WORKER, 1, {step: state(step) for step in range(5)}, state(0), state(4), batches)
    whole.reported = {step: 3 * step for step in range(1, 5)}
    rest = {step: rows for step, rows in batches.items() if step > begun + 1}
    states = {step: state(step) for step in range(begun + 1, 5)}
    # The sums of gradients are variables of the program, which look as if they were trained.
    begin = state(begun, "weight")
    right = Recording(WORKER, 2, states, begin, state(4), {begun + 1: first, **rest})
    return whole, dataclasses.replace(right, **changes)


def rounded(step: int, error: float) -> VariableState:
    """The variables after a step; the weight has an error, relative to its value."""
    whole = state(step)
    weight = Variable("weight", False, whole.variables["weight"].values * np.float32(1 + error))
    return VariableState(step, {**whole.variables, "weight": weight})


@pytest.mark.parametrize(
    ("begun", "first", "changes", "found"),
    [
        (2, ("row 3.2",), {}, []),
        (2, ("row 3.1", "row 3.2"), {}, []),
        (0, ("row 1.2",), {}, []),  # before the optimizer's first step: nothing began anew
        (2, ("row 3.0",), {}, ["weights", "data-position"]),  # the first batch of the step once more
        (2, ("row 3.0", "row 3.1", "row 3.2"), {}, ["weights"]),
        (2, ("row 3.2",), {"states": {3: state(3, "optimizer")}}, ["optimizer"]),
        (2, ("row 3.2",), {"states": {}, "end": state(4, "weight")}, ["differs"]),
        (2, ("row 3.2",), {"states": {3: state(3), 4: rounded(4, 1e-5)}, "end": rounded(4, 1e-5)}, []),
        (2, ("row 3.2",), {"states": {}, "end": rounded(4, 1e-2)}, ["differs"]),
    ],
)
def test_a_run_that_continues_between_two_batches_of_a_step(
    begun: int, first: tuple[str, ...], changes: dict[str, Any], found: list[str]
) -> None:
    """It is compared by what comes after that step; before, its sums of gradients are those of a part of a step."""
    findings = resumption(*accumulated(begun, first, **changes))
    assert [finding.code for finding in findings] == found
    assert all(
        "step 6" in finding.text or "step 9" in finding.text or finding.code == "differs" for finding in findings
    )


@pytest.mark.parametrize(
    ("first", "found"),
    [(("a", "b"), []), (("a", "b", "c", "d", "e", "f"), ["weights"])],
)
def test_another_number_of_workers_may_continue_between_two_batches(first: tuple[str, ...], found: list[str]) -> None:
    """Their rows are others, but fewer than in the next step."""
    whole, continued = accumulated(2, first)
    continued.rows[4] = tuple("ghijkl")
    assert [finding.code for finding in resumption_by_others(whole, continued)] == found

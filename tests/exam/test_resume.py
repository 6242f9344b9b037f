"""What a continued training has forgotten."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from clusterkit.exam.recording import Draw, Recording, Variable, VariableState
from clusterkit.exam.resume import (
    chance_note,
    failed_continuation,
    repetition,
    resumption,
    resumption_by_others,
    shared_backup,
    step_of_second_fit,
)
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


def test_a_rate_that_follows_a_lost_counter_is_not_told_besides() -> None:
    """Whoever saves the counter has the learning rate, too."""
    (found,) = resumption(unbroken(), continued(begin=state(6, "counter", "learning-rate"), states={}))
    assert found.code == "counter"


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (
            {7: (), 9: ("weight",)},
            "After step 9, weight is not what it is in the unbroken run; after step 7 no variable",
        ),
        ({9: ("weight",)}, "After step 9, weight is not what it is in the unbroken run; after step 6 no variable"),
        ({7: (), 9: ()}, "At the end, weight is not what it is in the unbroken run; after step 9 no variable"),
    ],
)
def test_states_date_a_difference(later: dict[int, tuple[str, ...]], said: str) -> None:
    """To the steps between which it began."""
    states = {step: state(step, *changed) for step, changed in later.items()}
    (found,) = resumption(unbroken(), continued(states=states, end=state(12, "weight")))
    assert (found.code, found.text[: len(said)]) == ("differs", said)
    assert "numpy generators" in found.remedy


def test_a_state_that_nobody_saw_is_not_told_as_equal() -> None:
    """The unbroken run has no state of the step at which the program continued."""
    whole = unbroken()
    del whole.states[6]
    (found,) = resumption(whole, continued(states={}, end=state(12, "weight")))
    assert found.text.endswith("no earlier state was recorded since the program continued.")


def test_a_variable_of_the_program_that_was_not_saved_is_named() -> None:
    """If the weights differ later; alone it is no mistake."""
    (found,) = resumption(unbroken(), continued(begin=state(6, "other"), states={8: state(8, "weight", "other")}))
    assert "after step 6 no variable of the model or the optimizer differed" in found.text
    assert "The variable other differed where the program continued, and since then." in found.text
    assert found.remedy.startswith("Save other with the checkpoint")


@pytest.mark.parametrize(("later", "found"), [((), []), (("weight",), ["weights"])])
def test_what_callbacks_change_at_the_end_of_an_epoch_is_not_lost(later: tuple[str, ...], found: list[str]) -> None:
    """The state of the unbroken run was recorded before the change; the next states are equal."""
    whole = unbroken()
    whole.epoch_ends = {0: 6, 1: 12}
    changed = continued(begin=state(6, "weight"), states={8: state(8, *later)})
    assert [one.code for one in resumption(whole, changed)] == found


def test_a_random_state_that_differs_with_the_weights_is_named() -> None:
    """Where no state was recorded at the continuation."""
    whole = unbroken()
    del whole.states[6]
    (found,) = resumption(whole, continued(states={8: state(8, "weight", "random")}))
    assert (found.code, "The random state random differs, too." in found.text) == ("random-state", True)
    assert "generators" in found.remedy


def test_a_variable_that_changes_after_each_step_is_not_blamed() -> None:
    """It differs where the program continued, since the unbroken run's state was recorded before it changed."""
    (found,) = resumption(unbroken(), continued(begin=state(6, "other"), states={8: state(8, "weight")}))
    assert "The variable" not in found.text


@pytest.mark.parametrize("changes", [{"callbacks": {"EarlyStopping.best": 0.5}}, {"logs": {1: {"loss": 1.5}}}])
def test_callbacks_and_metrics_that_only_follow_the_weights_are_not_blamed(changes: dict[str, Any]) -> None:
    """They differ after the weights do."""
    (found,) = resumption(unbroken(), continued(states={8: state(8, "weight")}, **changes))
    assert (found.code, "After step 8" in found.text) == ("differs", True)


@pytest.mark.parametrize(("changed", "said"), [((), False), (("metric",), True)])
def test_a_count_of_a_metric_began_anew_unless_it_was_seen_to_be_kept(changed: tuple[str, ...], said: bool) -> None:
    """By the metric's variables where the program continued."""
    whole, metric = unbroken(), Variable("metric", False, np.array([3.0]))
    other = dataclasses.replace(metric, values=np.array([0.0]))
    whole.states[6] = VariableState(6, {**whole.states[6].variables, "loss/total": metric})
    begin = VariableState(6, {**state(6).variables, "loss/total": other if changed else metric})
    (found,) = resumption(whole, continued(begin=begin, logs={1: {"loss": 1.5}}))
    assert (found.code, "began anew" in found.text) == ("metrics", said)


def test_one_of_several_weights_that_was_not_saved_is_named() -> None:
    """The others are equal, so that a checkpoint was restored."""
    whole, weight = unbroken(), Variable("weight", False, np.array([3.0]))
    whole.states[6] = VariableState(6, {**whole.states[6].variables, "scale": weight})
    begin = VariableState(6, {**state(6).variables, "scale": dataclasses.replace(weight, values=np.array([1.0]))})
    (found,) = resumption(whole, continued(begin=begin))
    assert (found.code, found.remedy[:16]) == ("weights", "Save scale, too:")


EPOCHS = [[f"row {number}" for number in order] for order in ([0, 1, 2, 3], [2, 0, 3, 1], [1, 3, 0, 2])]


@pytest.mark.parametrize(
    ("rows", "said", "remedy"),
    [
        (EPOCHS[0][2:] + EPOCHS[1], "these are the rows of step 3, in the order of 1 epoch earlier", "[seed, epoch]"),
        (EPOCHS[0] + EPOCHS[1][:2], "it began the data anew", "Skip the batches"),
        (
            EPOCHS[1][1:] + EPOCHS[2][:3],
            "these are the rows of step 6, so that it is 1 step behind",
            "Skip the batches",
        ),
        ([*EPOCHS[1][3:], *EPOCHS[2]], "these are the rows of step 8, so that it is 1 step ahead", "Skip the batches"),
        (EPOCHS[0][::-1][2:] + EPOCHS[1][::-1], "in an order that the unbroken run never had", "[seed, epoch]"),
        (["other"] * 6, "these rows, or their values, are not among those of the unbroken run", "Noise"),
    ],
)
def test_the_rows_of_other_steps_are_found(rows: list[str], said: str, remedy: str) -> None:
    """Three epochs of four steps, interrupted after step 6."""
    whole = unbroken()
    whole.rows = {step: (row,) for step, row in enumerate([row for epoch in EPOCHS for row in epoch], 1)}
    (found,) = resumption(whole, continued(rows={step: (row,) for step, row in enumerate(rows, 7)}))
    assert found.code == "data-position"
    assert said in found.text
    assert remedy in found.remedy


@pytest.mark.parametrize("read", [set(), {"/c/state"}])
def test_what_was_restored_is_told_if_a_file_was_read(read: set[str]) -> None:
    """A program may as well begin with other weights each time."""
    (found,) = resumption(unbroken(), continued(begin=state(0, "weight"), read=read))
    assert found.code == "counter"
    assert ("it restored weights" in found.text) == bool(read)


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
    assert ("draws at random" in chance_note(whole)) == draw.is_unsaved


@pytest.mark.parametrize(("epoch", "found"), [(6, []), (4, ["data-position"])])
def test_data_that_a_layer_augments_has_the_values_of_another_step(epoch: int, found: list[str]) -> None:
    """If its draws begin anew with an epoch; the state of such a layer is no part of the model."""
    whole = unbroken()
    whole.draws, whole.epoch_ends = [Draw("RandomFlip random_flip", True, False)], {0: epoch}
    rows = {step: (f"row {step - 6}",) for step in range(7, 13)}
    assert [one.code for one in resumption(whole, continued(rows=rows))] == found
    elsewhere = {step: (f"row {step - 5}",) for step in range(7, 13)}
    assert resumption(whole, continued(rows=elsewhere, begin=state(6, "random"))) == []
    whole.draws = []
    codes = [one.code for one in resumption(whole, continued(rows=elsewhere, begin=state(6, "random")))]
    assert codes == [*(["random-state"] if epoch == 4 else []), "data-position"]


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


@pytest.mark.parametrize(
    ("why", "workers", "said", "remedy"),
    [
        ("exited with code 1", None, "The run that was continued failed: exited", ""),
        ("the checkpoint has other objects", None, "The run that was continued failed: the", "Build the model and"),
        ("shape (2,)", 1, "The run that was continued by 1 worker failed: shape", "Save only what is the same for any"),
    ],
)
def test_a_continuation_that_failed(why: str, workers: int | None, said: str, remedy: str) -> None:
    """What may mend it follows from who continued it, and from what failed."""
    found = failed_continuation(why, workers)
    assert found.text.startswith(said)
    assert found.remedy.startswith(remedy)
    assert bool(found.remedy) == bool(remedy)


@pytest.mark.parametrize(("end", "steps", "found"), [(state(12), 9, []), (state(12), 13, ["began-anew"])])
def test_a_first_fit_that_is_trained_again_is_no_mistake(end: VariableState, steps: int, found: list[str]) -> None:
    """If the second one is restored: steps are left out, and the end is that of the unbroken run."""
    rows = {step: (f"row {step}",) for step in range(1, 13) if step < 4 or step > 15 - steps}
    changed = continued(begin=state(0), end=end, rows=rows, logs={}, callbacks={})
    assert [one.code for one in resumption(unbroken(), changed)] == found


def test_two_fits_that_share_a_backup_are_named_if_the_second_one_was_interrupted() -> None:
    """And only if something differs."""
    whole = unbroken()
    assert step_of_second_fit(whole) is None
    whole.shared_backup, whole.epoch_ends, whole.backed_up_fits = ("/backup", 5), {0: 5, 1: 8, 2: 12}, [0]
    assert step_of_second_fit(whole) is None
    whole.backed_up_fits = [0, 5]
    assert step_of_second_fit(whole) == 9
    findings = resumption(whole, continued(end=state(16)))
    (found,) = shared_backup(whole, findings, 9)
    assert (found.code, "share the backup directory /backup" in found.text) == ("shared-backup", True)
    assert findings[0].text in found.text
    assert shared_backup(whole, findings, 4) == findings
    assert shared_backup(whole, [], 9) == []
    whole.epoch_ends = {0: 5, 1: 12}
    assert step_of_second_fit(whole) is None  # it has no epoch after its first backup


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"end": state(12, "weight")}, "end with another weight. They"),
        (
            {"end": state(12, "weight"), "states": {5: state(5), 8: state(8, "optimizer")}},
            "end with another weight; optimizer differs after step 8, though they train on the same rows.",
        ),
        (
            {"end": state(12, "weight"), "states": {8: state(8, "weight")}, "rows": {5: ("row 5",), 7: ("row 9",)}},
            "end with another weight; since step 7 they train on other rows, or in another order.",
        ),
        (
            {"end": state(12, "weight"), "states": {6: state(6, "weight")}, "rows": {5: ("row 5",), 7: ("row 9",)}},
            "end with another weight; weight differs after step 6.",
        ),
        ({"end": None}, ""),
    ],
)
def test_two_unbroken_runs_that_differ(changes: dict[str, Any], said: str) -> None:
    """By the first step at which something was seen to differ: the rows, or the variables."""
    found = repetition(unbroken(), dataclasses.replace(unbroken(), **changes))
    assert [one.code for one in found] == ["not-deterministic"] * bool(said)
    assert all(said in one.text for one in found)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (18, "it made all 12 steps after the 6 that it had restored"),
        (16, "at step 16, the unbroken one at step 12: 4 steps too many"),
        (11, "1 step too few"),
    ],
)
def test_a_continued_run_of_another_length(end: int, said: str) -> None:
    """What was counted anew is told if the numbers say so."""
    states = {step: state(step) for step in range(7, 12)}
    rows = {step: (f"row {step}",) for step in range(7, 12)}
    (found,) = resumption(unbroken(), continued(end=state(end), states=states, rows=rows))
    assert found.code == "epoch"
    assert said in found.text

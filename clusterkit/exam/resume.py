"""The resume chapter of an exam: compares a resumed run with an uninterrupted run, and finds unsaved state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import COMPARED, Draw, Recording, VariableState, differences, is_same

# Maps a kind of variable to the code, a part of the text, and the remedy of a finding. Findings are in this order.
_LOST_STATE: Mapping[str, tuple[str, str, str]] = {
    "weight": ("weights", "the weights are", "Restore the checkpoint after the model is built, and check the status."),
    "optimizer": (
        "optimizer",
        "the optimizer's slots are",
        "Save the optimizer: tf.train.Checkpoint(model, optimizer).",
    ),
    "counter": ("counter", "the optimizer's step counter is", "Save the optimizer, with its iterations."),
    "learning-rate": ("learning-rate", "the learning rate is", "Let the schedule follow optimizer.iterations."),
    "random": ("random-state", "the random state is", "Save the generators and seed generators with the model."),
    "batch-norm": ("weights", "the moving averages are", "Save all variables of the model, not only the trainable."),
}
EXACT = tuple(_LOST_STATE)  # the kinds of variables that must be bitwise equal
_BACKUP = (
    "Add clusterkit.training.Backup() to the callbacks of fit: it saves and restores the model, the optimizer, the "
    "epoch and the position in the data."
)
_BACKED_UP = {"began-anew", "weights", "optimizer", "counter", "epoch"}  # codes of mistakes that `Backup` prevents
ROUNDING = 1e-5  # the allowed relative difference between metrics, since a resumed run may sum numbers in another order


def resumption(unbroken: Recording, continued: Recording) -> list[ExamFinding]:
    """Return findings about the first state, the rows, the length and the final state of a resumed attempt."""
    findings = _forgotten(unbroken, continued)
    if not unbroken.logs:
        return findings
    return [replace(one, remedy=_BACKUP) if one.code in _BACKED_UP else one for one in findings]


def unsaved_draws(unbroken: Recording) -> Draw | None:
    """Return something that draws at random and whose state no checkpoint holds; None if there is no such thing."""
    return next((draw for draw in unbroken.draws if draw.is_stateful), None)


def chance_note(unbroken: Recording) -> str:
    """Return a note that says why what follows a continuation is not compared; "" if it is."""
    draw = unsaved_draws(unbroken)
    if draw is None:
        return ""
    return (
        f"what comes after the continuation is not compared: {draw.name} draws at random, and no checkpoint holds its "
        "state"
    )


def _forgotten(unbroken: Recording, continued: Recording) -> list[ExamFinding]:
    begun = continued.begin
    findings = list(_state_findings(unbroken, continued))
    if begun is not None and begun.step == 0 and findings:
        return findings  # the steps are counted from 0 again, so later states can't be compared
    findings += _length(unbroken, continued)
    findings += _position_findings(unbroken, continued)
    if not findings and unsaved_draws(unbroken) is None:
        findings += _end_findings(unbroken, continued)
    return findings


def resumption_by_others(unbroken: Recording, continued: Recording) -> list[ExamFinding]:
    """Return findings about an attempt that was resumed with a different number of workers.

    Random states, rows and the learning rate are not compared: generators have a state for each replica, each worker
    has different rows, and many programs scale the learning rate with the number of workers. If each worker still
    reads the same number of rows per step, the size of the global batch has changed, so the number of steps is not
    compared either.
    """
    others = {_LOST_STATE[kind][0] for kind in ("random", "learning-rate")}
    findings = []
    if not _begins_with_a_part(unbroken, continued):
        findings = [one for one in _state_findings(unbroken, continued) if one.code not in others]
    common = unbroken.rows.keys() & continued.rows.keys()
    grows = any(len(unbroken.rows[step]) == len(continued.rows[step]) > 0 for step in common)
    return findings or ([] if grows else list(_length(unbroken, continued)))


def _continues_inside_a_step(unbroken: Recording, continued: Recording) -> bool:
    """Return whether an attempt continued between two batches whose gradients are applied together.

    The rows of its first step are then the last ones of that step's rows.
    """
    first = min(continued.rows, default=0)
    wanted, trained = unbroken.rows.get(first, ()), continued.rows.get(first, ())
    return 0 < len(trained) < len(wanted) and wanted[-len(trained) :] == trained


def _begins_with_a_part(unbroken: Recording, continued: Recording) -> bool:
    """Return whether the first step of an attempt has fewer rows than the next one, unlike in the unbroken run.

    Another number of workers has other rows in each worker, so these can't be compared.
    """
    first = min(continued.rows, default=0)
    trained = [len(continued.rows.get(step, ())) for step in (first, first + 1)]
    wanted = [len(unbroken.rows.get(step, ())) for step in (first, first + 1)]
    return 0 < trained[0] < trained[1] and wanted[0] >= wanted[1]


def _later_findings(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    """Yield findings about the first state that both attempts recorded after the continuation."""
    begun = -1 if continued.begin is None else continued.begin.step
    step = min((step for step in unbroken.states.keys() & continued.states.keys() if step > begun), default=None)
    if step is None:
        return
    expected, actual = unbroken.states[step], continued.states[step]
    for kind, name in _kinds_beyond_rounding(unbroken, continued, expected, actual).items():
        code, what, remedy = _LOST_STATE[kind]
        shown = unbroken.shown(step)
        yield ExamFinding(
            code, f"After step {shown} of the continued run, {what} not what the unbroken run had: {name}.", remedy
        )


def _state_findings(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    begun = continued.begin
    if begun is None:
        return
    if _continues_inside_a_step(unbroken, continued):
        yield from _later_findings(unbroken, continued)
        return
    expected = unbroken.states.get(begun.step)
    if begun.step == 0 and unbroken.begin is not None:
        expected = next((state for state in unbroken.states.values() if _has_weights_of(begun, state)), None)
        if expected is None and "weight" in differing_kinds(unbroken.begin, begun):
            yield ExamFinding(
                "counter",
                "The program continued with weights that it had saved, but counted its steps from 0: the optimizer was "
                "not restored.",
                _LOST_STATE["optimizer"][2],
            )
            return
        if expected is None:
            yield ExamFinding(
                "began-anew",
                "The program began at step 0 although it had saved a checkpoint: it restored nothing.",
                "Restore the newest checkpoint before the first step: checkpoint.restore(manager.latest_checkpoint).",
            )
            return
    if expected is None:
        return
    for kind, name in differing_kinds(expected, begun).items():
        if kind == "learning-rate" and not _differs_later(kind, unbroken, continued, begun.step):
            continue  # the program sets the learning rate before each step
        code, what, remedy = _LOST_STATE[kind]
        shown = unbroken.shown(expected.step)
        text = f"At step {shown}, where the program continued, {what} not what the unbroken run had: {name}."
        yield ExamFinding(code, text, remedy)


def _differs_later(kind: str, unbroken: Recording, continued: Recording, since: int) -> bool:
    """Return whether variables of this kind differ at the next step that both runs recorded.

    If there is no such step, return True.
    """
    step = min((step for step in unbroken.states.keys() & continued.states.keys() if step > since), default=None)
    return step is None or kind in differing_kinds(unbroken.states[step], continued.states[step])


def _has_weights_of(begun: VariableState, state: VariableState) -> bool:
    weights = [name for name, variable in begun.variables.items() if variable.kind == "weight"]
    return state.step > 0 and bool(weights) and "weight" not in differing_kinds(state, begun)


def differing_kinds(
    expected: VariableState, actual: VariableState, counts: Callable[[str, str], bool] = lambda name, kind: True
) -> dict[str, str]:
    """Map each kind of variable to the name of the first variable that differs; leave out kinds without differences.

    Only variables for whose name and kind `counts` returns True are considered.
    """
    kinds: dict[str, str] = {}
    for name, wanted in expected.variables.items():
        got = actual.variables.get(name)
        if not counts(name, wanted.kind):
            continue
        if wanted.kind in EXACT and got is not None and not wanted.on_read and not is_same(wanted.values, got.values):
            kinds.setdefault(wanted.kind, name)
    return {kind: kinds[kind] for kind in EXACT if kind in kinds}


def _kinds_beyond_rounding(
    unbroken: Recording, continued: Recording, expected: VariableState, actual: VariableState
) -> dict[str, str]:
    """Map kinds of variables to names as `differing_kinds` does, but leave out variables that differ by rounding alone.

    A sum of gradients that is saved as a whole and restored in parts, one for each worker, is rounded in another way.
    """
    larger = {difference.name for difference in differences(unbroken, continued, expected, actual)}
    return differing_kinds(expected, actual, lambda name, kind: kind not in COMPARED or name in larger)


def _length(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    expected, actual = unbroken.last_step, continued.last_step
    if expected is not None and actual is not None and expected != actual:
        yield ExamFinding(
            "epoch",
            f"The continued run ended at step {continued.shown(actual)}, the unbroken one at step "
            f"{unbroken.shown(expected)}: steps or an epoch were "
            "counted twice or left out.",
            "Save the number of the next step, and the epoch, with the checkpoint, and begin with those that are left.",
        )


def _position_findings(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    """Yield a finding if the resumed attempt trained on different rows than the uninterrupted run in the same step."""
    steps = sorted(continued.rows)[_continues_inside_a_step(unbroken, continued) :]
    wrong = [step for step in steps if step in unbroken.rows and continued.rows[step] != unbroken.rows[step]]
    if not wrong:
        return
    first = min(unbroken.rows)
    restarted = continued.rows[wrong[0]] == unbroken.rows.get(first)
    if not restarted and any(draw.in_data and draw.is_stateful for draw in unbroken.draws):
        return  # the same rows may have other values
    how = "it began the data anew" if restarted else "these are other rows, or have other values"
    yield ExamFinding(
        "data-position",
        f"At step {unbroken.shown(wrong[0])} the continued run did not train on the rows of the unbroken one: {how}.",
        "Save the iterator with the checkpoint, or skip the batches that were trained; training.Backup() does. Noise "
        "that is added to rows needs a generator that is saved too, or a seed for each step.",
    )


def _end_findings(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    forgotten = {
        name: (value, continued.callbacks[name])
        for name, value in unbroken.callbacks.items()
        if math.isfinite(value) and not math.isclose(continued.callbacks.get(name, value), value, rel_tol=ROUNDING)
    }
    if forgotten:
        name, (wanted, got) = next(iter(forgotten.items()))
        yield ExamFinding(
            "callbacks",
            f"The callbacks began anew: at the end {name} is {got:g}, {wanted:g} in the unbroken run.",
            "Save what the callback keeps, or set it from the log of earlier epochs when training begins.",
        )
    common = unbroken.logs.keys() & continued.logs.keys()
    for epoch in sorted(common):
        expected, actual = unbroken.logs[epoch], continued.logs[epoch]
        for name in expected.keys() & actual.keys():
            if not math.isclose(expected[name], actual[name], rel_tol=ROUNDING) and not forgotten:
                yield ExamFinding(
                    "metrics",
                    f"The metric {name} of epoch {epoch + 1} is {actual[name]:.6g}, {expected[name]:.6g} in the "
                    "unbroken run: its count began anew.",
                    "Save the metrics with the checkpoint, or save at the ends of epochs only.",
                )
                return
    if unbroken.end is None or continued.end is None or unbroken.end.step != continued.end.step:
        return
    if _continues_inside_a_step(unbroken, continued):
        kinds = _kinds_beyond_rounding(unbroken, continued, unbroken.end, continued.end)
    else:
        kinds = differing_kinds(unbroken.end, continued.end)
    if kinds:
        name = next(iter(kinds.values()))
        yield ExamFinding(
            "differs",
            f"At the end {name} is not what it is in the unbroken run, although the state at the continuation was.",
            "Look for state outside of the checkpoint: Python counters, numpy generators, files.",
        )

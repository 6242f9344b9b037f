"""The resume chapter of an exam: compares a resumed run with an uninterrupted run, and finds unsaved state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from clusterkit.exam.clipping import last_common
from clusterkit.exam.model import ExamFinding
from clusterkit.exam.position import continues_inside_a_step, position_findings
from clusterkit.exam.recording import COMPARED, Draw, Recording, VariableState, differences, is_same
from clusterkit.text.printable import printable
from clusterkit.words.model import number_of

# Maps a kind of variable to the code, a part of the text, and the remedy of a finding. Findings are in this order.
LOST_STATE: Mapping[str, tuple[str, str, str]] = {
    "weight": ("weights", "the weights are", "Restore the checkpoint after the model is built, and check the status."),
    "optimizer": (
        "optimizer",
        "the optimizer's slots are",
        "Save the optimizer: tf.train.Checkpoint(model=model, optimizer=optimizer).",
    ),
    "counter": ("counter", "the optimizer's step counter is", "Save the optimizer, with its iterations."),
    "learning-rate": ("learning-rate", "the learning rate is", "Let the schedule follow optimizer.iterations."),
    "random": ("random-state", "the random state is", "Save the generators and seed generators with the model."),
    "batch-norm": ("weights", "the moving averages are", "Save all variables of the model, not only the trainable."),
}
EXACT = tuple(LOST_STATE)  # the kinds of variables that must be bitwise equal
_BACKUP = (
    "Add clusterkit.training.Backup() to the callbacks of fit: it saves and restores the model with the seeds of its "
    "layers, the optimizer, the epoch and the position in the data."
)
_EVERY = "every variable that training changes."
_BACKED_UP = {"began-anew", "weights", "optimizer", "counter", "epoch"}  # codes of mistakes that `Backup` prevents
ROUNDING = 1e-5  # the allowed relative difference between metrics, since a resumed run may sum numbers in another order


def resumption(unbroken: Recording, continued: Recording) -> list[ExamFinding]:
    """Return findings about the first state, the rows, the length and the final state of a resumed attempt."""
    findings = _forgotten(unbroken, continued)
    if not unbroken.logs:
        return findings
    return [replace(one, remedy=_BACKUP) if _is_backed_up(one) else one for one in findings]


def failed_continuation(why: str, workers: int | None = None) -> ExamFinding:
    """Return a finding about a run that failed after it was continued, by `workers` workers if by another number.

    `why` is a clause. The same program wrote what the run restored, and ran without interruptions.
    """
    remedy = ""
    if workers is not None:
        remedy = (
            "Save only what is the same for any number of workers: no variable with a value for each worker, and no "
            "file of a worker that may be missing."
        )
    elif "checkpoint" in why.lower():
        remedy = (
            "Build the model and the optimizer before the checkpoint is restored, as with "
            "optimizer.build(model.trainable_variables)."
        )
    by = "" if workers is None else f" by {number_of('worker', workers)}"
    return ExamFinding("not-recovered", f"The run that was continued{by} failed: {why}.", remedy)


def repetition(first: Recording, second: Recording) -> list[ExamFinding]:
    """Return a finding if two unbroken runs with the same seed end with other values, and say since when they do."""
    last = last_common(first, second)
    ends = {} if last is None else differing_kinds(*last)
    if not ends:
        return []
    text = f"Two unbroken runs with the same seed end with another {next(iter(ends.values()))}"
    common = sorted(first.rows.keys() & second.rows.keys())
    other_rows = next((step for step in common if first.rows[step] != second.rows[step]), None)
    states = sorted(first.states.keys() & second.states.keys())
    apart = next((step for step in states if differing_kinds(first.states[step], second.states[step])), None)
    if other_rows is not None and (apart is None or other_rows <= apart):
        text += f"; since step {other_rows} they train on other rows, or in another order"
    elif apart is not None:
        name = next(iter(differing_kinds(first.states[apart], second.states[apart]).values()))
        same = ", though they train on the same rows" if common and other_rows is None else ""
        text += f"; {name} differs after step {apart}{same}"
    remedy = "Seed what draws at random: numpy.random.default_rng(seed), tf.keras.utils.set_random_seed(seed)."
    return [ExamFinding("not-deterministic", f"{text}. They can be compared only roughly.", remedy)]


def step_of_second_fit(unbroken: Recording) -> int | None:
    """Return the step after the first epoch of the second `fit` that saves backups by Keras's BackupAndRestore.

    Return None if there is no such `fit`, or if it has no second epoch.
    """
    if len(unbroken.backed_up_fits) < 2:
        return None
    later = [step for step in unbroken.epoch_ends.values() if step > unbroken.backed_up_fits[1]]
    last = unbroken.last_step or 0
    return min(later) + 1 if later and min(later) + 1 < last else None


def shared_backup(unbroken: Recording, findings: Sequence[ExamFinding], step: int) -> list[ExamFinding]:
    """Explain the findings about a run that was interrupted at a step of a `fit` that shares its backup directory."""
    if unbroken.shared_backup is None or not findings or step <= unbroken.shared_backup[1]:
        return list(findings)
    path = printable(unbroken.shared_backup[0])
    text = f"Two calls of fit share the backup directory {path}, and the program was interrupted in the second one. "
    remedy = (
        "Give each fit a backup directory of its own, with delete_checkpoint=False, so that a fit that has ended is "
        "not trained again."
    )
    return [ExamFinding("shared-backup", text + findings[0].text, remedy)]


def _is_backed_up(finding: ExamFinding) -> bool:
    """Return whether `Backup` prevents the mistake. It saves no variables of the program's own."""
    return finding.code in _BACKED_UP and not finding.remedy.endswith(_EVERY)


def unsaved_draws(unbroken: Recording) -> Draw | None:
    """Return something that draws at random and whose state no checkpoint holds; None if there is no such thing."""
    return next((draw for draw in unbroken.draws if draw.is_unsaved), None)


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
    findings += position_findings(unbroken, continued)
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
    others = {LOST_STATE[kind][0] for kind in ("random", "learning-rate")}
    findings = []
    if not _begins_with_a_part(unbroken, continued):
        findings = [one for one in _state_findings(unbroken, continued) if one.code not in others]
    common = unbroken.rows.keys() & continued.rows.keys()
    grows = any(len(unbroken.rows[step]) == len(continued.rows[step]) > 0 for step in common)
    return findings or ([] if grows else list(_length(unbroken, continued)))


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
        code, what, remedy = LOST_STATE[kind]
        shown = unbroken.shown(step)
        yield ExamFinding(
            code, f"After step {shown} of the continued run, {what} not what the unbroken run had: {name}.", remedy
        )


def _state_findings(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    begun = continued.begin
    if begun is None:
        return
    if continues_inside_a_step(unbroken, continued):
        yield from _later_findings(unbroken, continued)
        return
    expected = unbroken.states.get(begun.step)
    if begun.step == 0 and unbroken.begin is not None:
        expected = next((state for state in unbroken.states.values() if _has_weights_of(begun, state)), None)
        if expected is None:
            yield from _from_step_0(unbroken, continued, unbroken.begin, begun)
            return
    if expected is None:
        return
    kinds = differing_kinds(expected, begun)
    # A program may set the learning rate before each step, and callbacks may change anything at the end of an epoch,
    # after the state of the unbroken run was recorded.
    is_end_of_epoch = begun.step in unbroken.epoch_ends.values()
    for kind, name in kinds.items():
        if kind == "random" and any(draw.in_data for draw in unbroken.draws):
            continue  # it may be the state of a layer that augments the data, which is no part of the model
        may_change = is_end_of_epoch or kind == "learning-rate"
        if may_change and not _differs_later(kind, unbroken, continued, begun.step):
            continue
        if kind == "learning-rate" and "counter" in kinds:
            continue  # it follows the counter
        code, what, _ = LOST_STATE[kind]
        remedy = _remedy_of(kind, name, unbroken)
        if kind == "weight" and _has_equal_weights(expected, begun):
            what, remedy = "some of the weights are", f"Save {name}, too: {_EVERY}"
        shown = unbroken.shown(expected.step)
        text = f"At step {shown}, where the program continued, {what} not what the unbroken run had: {name}."
        yield ExamFinding(code, text, remedy)


def _from_step_0(
    unbroken: Recording, continued: Recording, expected: VariableState, begun: VariableState
) -> Iterator[ExamFinding]:
    """Yield a finding about a run that counts its steps from 0 with weights that the unbroken run had at no step."""
    if "weight" in differing_kinds(expected, begun):
        text = "The program counted its steps from 0, and its weights are not those with which the unbroken run began"
        if continued.read:  # else nobody saw that it restored anything: it may begin with other weights each time
            text += ": it restored weights, and not the optimizer"
        yield ExamFinding("counter", f"{text}.", LOST_STATE["optimizer"][2])
        return
    if _skips_steps(unbroken, continued):
        return
    yield ExamFinding(
        "began-anew",
        "The program began at step 0 although it had saved a checkpoint: it restored nothing.",
        "Restore the newest checkpoint before the first step: checkpoint.restore(manager.latest_checkpoint).",
    )


def _remedy_of(kind: str, name: str, unbroken: Recording) -> str:
    """Return the remedy if a variable of a kind was not saved. `Backup` saves the seeds of layers, such as dropout."""
    if kind == "random" and unbroken.logs and name.endswith("seed_generator_state"):
        return _BACKUP
    return LOST_STATE[kind][2]


def _skips_steps(unbroken: Recording, continued: Recording) -> bool:
    """Return whether an attempt that began at step 0 left out steps, and ended as the unbroken run did.

    So does a program with two calls of `fit` that trains the first one again, and restores the second one.
    """
    if unbroken.end is None or continued.end is None or unbroken.end.step != continued.end.step:
        return False
    begins_alike = min(unbroken.rows, default=0) == min(continued.rows, default=-1)
    has_gap = bool(unbroken.rows.keys() - continued.rows.keys())
    return begins_alike and has_gap and not differing_kinds(unbroken.end, continued.end)


def _has_equal_weights(expected: VariableState, begun: VariableState) -> bool:
    """Return whether some of the weights are equal, so that a checkpoint was restored, but without the others."""
    pairs = [(one, begun.variables.get(name)) for name, one in expected.variables.items() if one.kind == "weight"]
    return any(got is not None and got.values.any() and is_same(one.values, got.values) for one, got in pairs)


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
    if expected is None or actual is None or expected == actual:
        return
    begun = continued.begin
    if begun is not None and begun.step and actual - begun.step == expected:
        how = f"it made all {number_of('step', expected)} after the {begun.step} that it had restored"
    elif actual > expected:
        how = f"{number_of('step', actual - expected)} too many"
    else:
        how = f"{number_of('step', expected - actual)} too few"
    yield ExamFinding(
        "epoch",
        f"The continued run ended at step {continued.shown(actual)}, the unbroken one at step "
        f"{unbroken.shown(expected)}: {how}.",
        "Save the number of the next step, and the epoch, with the checkpoint, and begin with those that are left.",
    )


def _end_findings(unbroken: Recording, continued: Recording) -> Iterator[ExamFinding]:
    """Yield a finding about the callbacks, the metrics or the variables after the continuation.

    The first of them that differs is named: if weights differ before the end, callbacks and metrics only follow them.
    """
    apart = _first_apart(unbroken, continued)
    if apart is not None and not apart.is_end and "learning-rate" not in apart.kinds:
        yield _late_finding(unbroken, continued, apart)
        return
    found = _callback_finding(unbroken, continued) or _metric_finding(unbroken, continued, are_equal=apart is None)
    if found is not None:
        yield found
    elif apart is not None:
        yield _late_finding(unbroken, continued, apart)


def _callback_finding(unbroken: Recording, continued: Recording) -> ExamFinding | None:
    for name, wanted in unbroken.callbacks.items():
        got = continued.callbacks.get(name, wanted)
        if math.isfinite(wanted) and not math.isclose(got, wanted, rel_tol=ROUNDING):
            return ExamFinding(
                "callbacks",
                f"The callbacks began anew: at the end {name} is {got:g}, {wanted:g} in the unbroken run.",
                "Save what the callback keeps, or set it from the log of earlier epochs when training begins.",
            )
    return None


def _metric_finding(unbroken: Recording, continued: Recording, *, are_equal: bool) -> ExamFinding | None:
    """Name a metric of an epoch that differs. `are_equal` says that no variable differs after the continuation."""
    how = ", although the weights are equal" if are_equal else ""
    how += "" if _metrics_are_kept(unbroken, continued) else ": its count began anew"
    for epoch in sorted(unbroken.logs.keys() & continued.logs.keys()):
        expected, actual = unbroken.logs[epoch], continued.logs[epoch]
        for name in sorted(expected.keys() & actual.keys()):
            if not math.isclose(expected[name], actual[name], rel_tol=ROUNDING):
                return ExamFinding(
                    "metrics",
                    f"The metric {name} of epoch {epoch + 1} is {actual[name]:.6g}, {expected[name]:.6g} in the "
                    f"unbroken run{how}.",
                    "Save the metrics with the checkpoint, or save at the ends of epochs only.",
                )
    return None


def _metrics_are_kept(unbroken: Recording, continued: Recording) -> bool:
    """Return whether the variables of metrics were seen, and equal, where the program continued."""
    begun = continued.begin
    expected = None if begun is None else unbroken.states.get(begun.step)
    if begun is None or expected is None:
        return False
    pairs = [(one, begun.variables.get(name)) for name, one in expected.variables.items() if one.kind == "metric"]
    return bool(pairs) and all(got is not None and is_same(one.values, got.values) for one, got in pairs)


@dataclass(frozen=True, slots=True)
class _Apart:
    """The first state after the continuation in which variables differ, and the last one before it without differences.

    `kinds` maps each kind of variable that differs to the name of the first one. `same` is None if no equal state was
    recorded.
    """

    step: int
    kinds: Mapping[str, str]
    same: int | None
    is_end: bool


def _first_apart(unbroken: Recording, continued: Recording) -> _Apart | None:
    begun = continued.begin
    first = -1 if begun is None else begun.step
    same = first if first in unbroken.states else None  # the states at the continuation have been compared before this
    for step in sorted(step for step in unbroken.states.keys() & continued.states.keys() if step > first):
        states = unbroken.states[step], continued.states[step]
        if continues_inside_a_step(unbroken, continued):
            kinds = _kinds_beyond_rounding(unbroken, continued, *states)
        else:
            kinds = differing_kinds(*states)
        if kinds:
            return _Apart(step, kinds, same, is_end=False)
        same = step
    if unbroken.end is None or continued.end is None or unbroken.end.step != continued.end.step:
        return None
    if continues_inside_a_step(unbroken, continued):
        kinds = _kinds_beyond_rounding(unbroken, continued, unbroken.end, continued.end)
    else:
        kinds = differing_kinds(unbroken.end, continued.end)
    return _Apart(unbroken.end.step, kinds, same, is_end=True) if kinds else None


def _late_finding(unbroken: Recording, continued: Recording, apart: _Apart) -> ExamFinding:
    """Say between which steps the difference began, and name a variable of the program's own that was not saved."""
    name = next(iter(apart.kinds.values()))
    when = "At the end" if apart.is_end else f"After step {unbroken.shown(apart.step)}"
    text = f"{when}, {name} is not what it is in the unbroken run"
    if apart.same is None:
        text += "; no earlier state was recorded since the program continued"
    else:
        text += f"; after step {unbroken.shown(apart.same)} no variable of the model or the optimizer differed yet"
    unsaved = _unsaved(unbroken, continued, apart)
    generator = apart.kinds.get("random")
    if generator is not None and apart.kinds.keys() != {"random"}:
        text += f". The random state {generator} differs, too"
        return ExamFinding("random-state", f"{text}.", _remedy_of("random", generator, unbroken))
    if not unsaved:
        hint = "Look for state outside of the checkpoint: Python counters, numpy generators, files."
        return ExamFinding("differs", f"{text}.", hint)
    return ExamFinding(
        "differs",
        f"{text}. The variable {unsaved} differed where the program continued, and since then.",
        f"Save {unsaved} with the checkpoint: tf.train.Checkpoint(model=model, optimizer=optimizer, own=variable).",
    )


def _unsaved(unbroken: Recording, continued: Recording, apart: _Apart) -> str:
    """Return the name of a variable of the program's own that was not saved; "" if there is none.

    It differs where the program continued and in the later state `apart`. A variable that only differs where the
    program continued may be one that the program changes after each step, such as its count of steps.
    """
    begun = continued.begin
    expected = None if begun is None else unbroken.states.get(begun.step)
    ends = unbroken.end, continued.end
    states = ends if apart.is_end else (unbroken.states[apart.step], continued.states[apart.step])
    if begun is None or expected is None or states[0] is None or states[1] is None:
        return ""
    later = _own_apart(states[0], states[1])
    return next((name for name in _own_apart(expected, begun) if name in later), "")


def _own_apart(expected: VariableState, actual: VariableState) -> list[str]:
    """Return the names of variables that differ, and belong neither to the model nor to the optimizer."""
    names = []
    for name, wanted in expected.variables.items():
        got = actual.variables.get(name)
        if wanted.kind != "other" or wanted.on_read or got is None:
            continue
        if not is_same(wanted.values, got.values):
            names.append(name)
    return names

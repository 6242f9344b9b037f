"""Compares what the coordinator of a parameter-server job continues with what its checkpoint held when it was saved.

The workers of such a job take other rows after a restart, and the updates come in another order. So later states can't
be compared with those of an unbroken run. But where the program continues, it has to hold what it held when it saved,
bit by bit, and no function that it had scheduled by then may be missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusterkit.exam.model import ExamFinding
from clusterkit.exam.recording import CoordinatorSave, Recording, VariableState, is_same
from clusterkit.exam.resume import LOST_STATE, differing_kinds
from clusterkit.words.model import number_of

# The learning rate may be set before each step, and generators draw for steps that come in any order.
_COMPARED = ("weight", "optimizer", "counter", "batch-norm")
_JOIN = (
    "Call coordinator.join() before the checkpoint is saved, so that it holds every update that it counts: schedule "
    "returns before a worker has run the function."
)
_ALL = "every variable that training changes."


def continuation(total: int | None, broken: Recording, continued: Recording) -> list[ExamFinding]:
    """Return findings about an attempt that continued after the attempt `broken` was interrupted.

    `total` is the number of functions that an unbroken run schedules; None if it is unknown, or may be another one.
    """
    if continued.first is None or not broken.saves:
        return []
    early = _early_save(total, broken, continued)
    if early is not None:
        return [early]
    complete = [save for save in broken.saves if not save.pending]
    if len(complete) < len(broken.saves):
        return []  # the program may have continued from a checkpoint whose state nobody saw
    return _forgotten(broken.first, complete, continued.first)


def _early_save(total: int | None, broken: Recording, continued: Recording) -> ExamFinding | None:
    """Return a finding if the program takes functions for done that had not ended when its checkpoint was saved.

    The weights tell from which save it continued. By numbers alone, a program that saves in the middle, and goes on
    with what it has saved, can't be told from one that goes on with what it has scheduled.
    """
    if total is None or continued.scheduled is None or continued.first is None:
        return None
    counted = total - continued.scheduled  # the functions that the continued program takes for done
    saves = [save for save in broken.saves if "weight" not in _apart(save.state, continued.first)]
    changed = broken.changed_after_save.get(counted)
    if not saves or changed is None or not all(save.pending and save.scheduled == counted for save in saves):
        return None
    lost = saves[-1].pending
    return ExamFinding(
        "saved-before-join",
        f"The checkpoint was saved when the coordinator had scheduled {number_of('function', counted)}, and {lost} of "
        f"them had not ended: the value of {changed} changed after that. The continued program scheduled the other "
        f"{continued.scheduled} of {total}, so that {number_of('update', lost)} "
        f"{'is' if lost == 1 else 'are'} lost.",
        _JOIN,
    )


def _forgotten(
    initial: VariableState | None, saves: Sequence[CoordinatorSave], begun: VariableState
) -> list[ExamFinding]:
    """Return a finding for each kind of variable that is not what it was at any save."""
    apart = [_apart(save.state, begun) for save in saves]
    if not all(apart):
        return []
    restored = [kinds for kinds in apart if "weight" not in kinds]
    if restored:
        return [_finding(kind, name) for kind, name in restored[-1].items()]
    if initial is not None and "weight" not in _apart(initial, begun):
        return [
            ExamFinding(
                "began-anew",
                "The program began with the weights that it had before its first step, although it had saved a "
                "checkpoint: it restored nothing.",
                "Restore the newest checkpoint before the first step: checkpoint.restore(manager.latest_checkpoint).",
            )
        ]
    return [_finding("weight", apart[-1]["weight"], _partly_restored(saves[-1].state, begun))]


def _apart(saved: VariableState, begun: VariableState) -> dict[str, str]:
    """Map each compared kind of variable that differs to the name of the first one.

    A plain variable with one number beside larger weights is left out: it may add up what the program prints.
    """
    sizes = {name: one.values.size for name, one in saved.variables.items() if one.kind == "weight"}
    is_larger = max(sizes.values(), default=1) > 1

    def counts(name: str, kind: str) -> bool:
        is_sum = is_larger and sizes.get(name) == 1
        return kind in _COMPARED and not is_sum

    return differing_kinds(saved, begun, counts)


def _partly_restored(saved: VariableState, begun: VariableState) -> bool:
    """Return whether some of the weights are those that were saved."""
    weights = [(one, begun.variables.get(name)) for name, one in saved.variables.items() if one.kind == "weight"]
    return any(other is not None and is_same(one.values, other.values) for one, other in weights)


def _finding(kind: str, name: str, is_part: bool = False) -> ExamFinding:
    code, what, remedy = LOST_STATE[kind]
    if is_part:
        what, remedy = "some of the weights are", f"Save {name}, too: {_ALL}"
    was = "they were" if what.endswith(" are") else "it was"
    text = f"Where the program continued, {what} not what {was} when the checkpoint was saved: {name}."
    return ExamFinding(code, text, remedy)

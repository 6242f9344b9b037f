"""Cuts recordings off after a step, so that a run that was ended early can be compared with one that was not."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.exam.recording import Recording, VariableState


def cut_off(recording: Recording, last: int) -> Recording:
    """Return the recording as if the program had ended after the step `last`.

    What callbacks keep is left out, since it is recorded without a step.
    """
    states = {step: state for step, state in recording.states.items() if step <= last}
    end = recording.end
    if end is not None and end.step > last:
        end = None
    return replace(
        recording,
        states=states,
        end=states.get(last, end),
        rows={step: rows for step, rows in recording.rows.items() if step <= last},
        losses={step: loss for step, loss in recording.losses.items() if step <= last},
        callbacks={},
    )


def last_common(first: Recording, second: Recording) -> tuple[VariableState, VariableState] | None:
    """Return the last states after the same step that both runs have recorded; None if there are none.

    These are the states at the ends, unless one of the runs was ended early.
    """
    if first.end is not None and second.end is not None:
        return first.end, second.end
    ours = {**first.states, **({} if first.end is None else {first.end.step: first.end})}
    theirs = {**second.states, **({} if second.end is None else {second.end.step: second.end})}
    step = max(ours.keys() & theirs.keys(), default=None)
    return None if step is None else (ours[step], theirs[step])

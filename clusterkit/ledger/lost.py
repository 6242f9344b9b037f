"""How far a run had come whose supervisor was lost, from its journal."""

from __future__ import annotations

from collections.abc import Sequence

from clusterkit.machine.before import before_of
from clusterkit.words.events import Event
from clusterkit.words.outcome import RunResult, RunState


def lost_result(events: Sequence[tuple[float, Event]], reason: str, later: float = 0.0) -> RunResult | None:
    """The result of a run with these events, each with its time; None if it did not begin.

    What it had decided itself counts. If it had not decided yet, what still ran has ended `later` than the last event.
    """
    before = before_of(events)
    if before.began is None or before.final is not None:
        return before.final
    before.last += later
    attempts = sorted([*before.ended.values(), *before.lost()], key=lambda one: (one.task, one.attempt))
    steps = [attempt.last_step for attempt in attempts if attempt.last_step is not None]
    return RunResult(
        RunState.FAILED,
        exit_code=1,
        reason=reason,
        attempts=tuple(attempts),
        restarts=before.restarts,
        last_step=max(steps, default=None),
        duration=before.last - before.began,
        checkpoint=None if before.checkpoint is None else before.checkpoint[1],
        lost=True,
    )

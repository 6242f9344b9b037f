"""What a run leaves to those who take over from its supervisor: how far it had come, and its result if it was lost."""

from __future__ import annotations

from clusterkit.ledger.ledger import Ledger
from clusterkit.machine.before import Before
from clusterkit.words.outcome import RunResult, RunState


def before_of(ledger: Ledger) -> Before:
    """How far the run had come, for a machine that continues it."""
    run, records = ledger.run, {(one.task, one.number): one for one in ledger.attempts.all()}
    return Before(
        began=ledger.began if run.allocations else None,
        last=ledger.last,
        allocations=run.allocations,
        spent=ledger.spent,
        newest={task: number for (task, number), one in sorted(records.items()) if one.started},
        ended={key: one.record for key, one in records.items() if one.over},
        live={key: one.record for key, one in records.items() if one.started and not one.over},
        restarts=run.restarts,
        checkpoint=run.checkpoint or run.found,
        step=run.trained,
        faults={fault.event.fault for fault in ledger.faults.known.values()},
        open=dict(ledger.faults.open),
        injected=max(ledger.faults.known, default=0),
        done=run.done,
        stopped=run.stopped,
        result=run.result,
    )


def lost_result(ledger: Ledger, reason: str, later: float = 0.0) -> RunResult | None:
    """The result of a run whose supervisor was lost; None if it did not begin.

    What it had decided itself counts. If it had not decided yet, what still ran has ended `later` than the last event.
    """
    before = before_of(ledger)
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

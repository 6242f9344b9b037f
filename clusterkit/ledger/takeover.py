"""What a run leaves to those who take over from its supervisor: how far it had come, its account and its result."""

from __future__ import annotations

from clusterkit.ledger.ledger import Ledger, ledger_of
from clusterkit.machine.before import Before
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.words.account import Account
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
        metrics={task: of.metrics for task, of in run.tasks.items()},
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
        metrics=ledger.run.metrics,
    )


def report_of(run: RunDirectory) -> Account:
    """What the run wrote at its end; without that, what its journal says so far."""
    if (written := run.recovered()) is not None:
        return written
    info = run.info()
    return Account() if info is None else ledger_of(info.job, JournalReader(run).events(clock="m")).account()


def result_of(run: RunDirectory) -> RunResult | None:
    """How a run that is over has ended; without a result, what its journal says; None if it did not begin."""
    if (written := run.result()) is not None:
        return written
    info = run.info()
    ledger = ledger_of(None if info is None else info.job, JournalReader(run).events(clock="m"))
    return lost_result(ledger, "its supervisor was killed")

"""Derives a run's history, account and result from its ledger, for a process that takes over from the supervisor."""

from __future__ import annotations

from clusterkit.ledger.ledger import Ledger, ledger_of
from clusterkit.machine.history import RunHistory
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.words.account import Account
from clusterkit.words.outcome import RunResult, RunState


def history_of(ledger: Ledger) -> RunHistory:
    """Return the history of the run, for a state machine that continues the run."""
    run, records = ledger.run, {(one.task, one.number): one for one in ledger.attempts.all()}
    return RunHistory(
        began=ledger.began if run.allocations else None,
        last_event_at=ledger.last_event_at,
        allocations=run.allocations,
        seconds_spent=ledger.seconds_spent,
        newest_attempts={task: number for (task, number), one in sorted(records.items()) if one.start_recorded},
        finished={key: one.record for key, one in records.items() if one.end_recorded},
        unfinished={key: one.record for key, one in records.items() if one.start_recorded and not one.end_recorded},
        restarts=run.restarts,
        checkpoint=run.checkpoint or run.resumed_checkpoint,
        step=run.trained_step,
        metrics={task: of.metrics for task, of in run.tasks.items()},
        fault_texts={fault.event.fault for fault in ledger.faults.by_number.values()},
        open_faults=dict(ledger.faults.open),
        fault_count=max(ledger.faults.by_number, default=0),
        successful_task=run.successful_task,
        stop_reason=run.stop_reason,
        result=run.result,
    )


def lost_result(ledger: Ledger, reason: str, later: float = 0.0) -> RunResult | None:
    """Return the result of a run whose supervisor was lost; None if the run did not begin.

    If the supervisor had decided a result, return that. Otherwise, attempts that were still running count as
    ended `later` seconds after the last event.
    """
    history = history_of(ledger)
    if history.began is None or history.result is not None:
        return history.result
    history.last_event_at += later
    attempts = sorted([*history.finished.values(), *history.lost_attempts()], key=lambda one: (one.task, one.attempt))
    steps = [attempt.last_step for attempt in attempts if attempt.last_step is not None]
    return RunResult(
        RunState.FAILED,
        exit_code=1,
        reason=reason,
        attempts=tuple(attempts),
        restarts=history.restarts,
        last_step=max(steps, default=None),
        duration=history.last_event_at - history.began,
        checkpoint=None if history.checkpoint is None else history.checkpoint[1],
        lost=True,
        metrics=ledger.run.metrics,
    )


def account_of(run: RunDirectory) -> Account:
    """Return the account that the run wrote at its end; otherwise the account of its journal so far."""
    if (written := run.account()) is not None:
        return written
    info = run.info()
    return Account() if info is None else ledger_of(info.job, JournalReader(run).events(clock="m")).account()


def result_of(run: RunDirectory) -> RunResult | None:
    """Return the result of a finished run, or the result according to its journal; None if the run did not begin."""
    if (written := run.result()) is not None:
        return written
    info = run.info()
    ledger = ledger_of(None if info is None else info.job, JournalReader(run).events(clock="m"))
    return lost_result(ledger, "its supervisor was killed")

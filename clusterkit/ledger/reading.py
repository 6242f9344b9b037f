"""The account and the result of a run, as a client reads them."""

from __future__ import annotations

from clusterkit.ledger.ledger import ledger_of
from clusterkit.ledger.takeover import lost_result
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.words.account import Account
from clusterkit.words.outcome import RunResult


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

"""The account and the result of a run, as a client reads them."""

from __future__ import annotations

from clusterkit.client.directory import RunDirectory
from clusterkit.client.journal import JournalReader
from clusterkit.ledger.account import account
from clusterkit.ledger.lost import lost_result
from clusterkit.words.account import Account
from clusterkit.words.outcome import RunResult


def report_of(run: RunDirectory) -> Account:
    """What the run wrote at its end; without that, what its journal says so far."""
    if (written := run.recovered()) is not None:
        return written
    info = run.info()
    return Account() if info is None else account(info.job, JournalReader(run).events(clock="m"))


def result_of(run: RunDirectory) -> RunResult | None:
    """How a run that is over has ended; without a result, what its journal says; None if it did not begin."""
    if (written := run.result()) is not None:
        return written
    return lost_result(JournalReader(run).events(clock="m"), "its supervisor was killed")

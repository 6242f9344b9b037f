"""The account of a run, as a client reads it."""

from __future__ import annotations

from clusterkit.client.directory import RunDirectory
from clusterkit.client.journal import JournalReader
from clusterkit.recovery.account import account
from clusterkit.words.account import Account


def report_of(run: RunDirectory) -> Account:
    """What the run wrote at its end; without that, what its journal says so far."""
    if (written := run.recovered()) is not None:
        return written
    info = run.info()
    return Account() if info is None else account(info.job, JournalReader(run).events(clock="m"))

"""The account of a run, as one fold over its events."""

from __future__ import annotations

from collections.abc import Iterable

from clusterkit.ledger.goodput import GoodputFold
from clusterkit.ledger.startup import StartupFold
from clusterkit.ledger.stragglers import StragglerFold
from clusterkit.words.account import Account
from clusterkit.words.events import Event
from clusterkit.words.job import JobSpec


class AccountFold:
    """Takes each event of a run with its time in seconds, and reports at any time what is known so far."""

    def __init__(self, job: JobSpec) -> None:
        self._goodput = GoodputFold(job)
        self._startup = StartupFold(job)
        self._stragglers = StragglerFold()

    def take(self, at: float, event: Event) -> None:
        """Take in an event."""
        self._goodput.take(at, event)
        self._startup.take(at, event)
        self._stragglers.take(at, event)

    def report(self, now: float | None = None) -> Account:
        """The account up to `now`, on the clock of the events; by default, up to the last event."""
        told = self._goodput.recoveries.report()
        goodput, startup = self._goodput.report(now), self._startup.report()
        return Account(told.recoveries, told.faults, goodput, startup, self._stragglers.report())


def account(job: JobSpec, events: Iterable[tuple[float, Event]]) -> Account:
    """The account of these events, each with its time in seconds."""
    fold = AccountFold(job)
    for at, event in events:
        fold.take(at, event)
    return fold.report()

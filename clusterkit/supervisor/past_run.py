"""The history of a run at the start of a supervisor: empty for a new run, or the record of earlier supervisors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from clusterkit.machine.history import RunHistory
from clusterkit.store.directory import RunInfo
from clusterkit.store.removals import Removal
from clusterkit.text.printable import printable
from clusterkit.words.events import Began, Continued, Event
from clusterkit.words.verification import Verification


@dataclass(frozen=True, slots=True)
class Absence:
    """Why `--continue` begins a run: the run never existed, or its files were removed. As text: a message about it."""

    run_id: str
    removal: Removal | None

    def __str__(self) -> str:
        if self.removal is None:
            return f"There is no run {self.run_id} to continue, so it begins."
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.removal.at))
        return (
            f"The run {self.run_id} was removed by {printable(self.removal.by)} at {when}, so it can't be continued. "
            "It begins again with attempt 1."
        )


@dataclass(frozen=True, slots=True)
class PastRun:
    """The history of a run. `clock_offset` is the run's clock minus this host's monotonic clock, in seconds."""

    history: RunHistory
    events: Sequence[tuple[float, Event]] = ()  # the earlier events, stamped with the run's clock
    info: RunInfo | None = None
    clock_offset: float = 0.0

    def first(self, doubts: tuple[str, ...], verification: Verification | None = None) -> Began | Continued:
        """Return the loop's first event.

        For a new run, the event contains `doubts`, the warnings about the program, and the verdict of --verify.
        """
        if self.history.allocations:
            return Continued(self.history.allocations + 1)
        return Began(doubts, verification)

    def clock(self) -> float:
        """Return the time on the run's clock, which also runs while there is no supervisor."""
        return time.monotonic() + self.clock_offset


NEW_RUN = PastRun(RunHistory())

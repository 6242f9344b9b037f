"""The end of a run's allocation: which signals announce it, and how the run continues in the next one."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from clusterkit.supervisor.signals import GRACE, WARNINGS
from clusterkit.system.barrier import start_thread
from clusterkit.system.inbox import Inbox
from clusterkit.words.events import AllocationEnding, Interrupted
from clusterkit.words.outcome import SUSPENDED

if TYPE_CHECKING:  # only runs on hosts need it
    from clusterkit.backends.hosts.allocation import Allocation


@dataclass(frozen=True, slots=True)
class SignalMeaning:
    """Asks the engine, in a thread, whether a signal announces the end of the allocation."""

    allocation: Allocation | None
    inbox: Inbox

    def handle(self, event: Interrupted) -> None:
        """Handle a signal. For its handler."""
        if event.signal in (signal.SIGTERM, *WARNINGS):
            self.inbox.put(partial(self._ask, event))
        else:
            self.inbox.put(event)

    def _ask(self, event: Interrupted) -> None:
        try:
            start_thread("notice", lambda: self.inbox.put(self._meaning(event)), self.inbox.put)
        except OSError:  # no thread can be started, so the loop waits for the engine's answer
            self.inbox.put(self._meaning(event))

    def _meaning(self, event: Interrupted) -> Interrupted | AllocationEnding:
        ending = None if self.allocation is None else self.allocation.ending(event.signal)
        if ending is None and event.signal in WARNINGS:
            return AllocationEnding(f"the supervisor got {signal.Signals(event.signal).name}", GRACE)
        return ending or event


def is_ending(allocation: Allocation | None, inbox: Inbox) -> bool:
    """Whether the allocation ends. For a run whose hosts are missing: only they may have been told so far."""
    if allocation is None:
        return False
    return inbox.is_moving or isinstance(allocation.ending(signal.SIGTERM, elsewhere=True), AllocationEnding)


def request_next(allocation: Allocation | None) -> int:
    """Request the next allocation of a suspended run, if the engine supports that; return the exit code."""
    if allocation is not None and (why := allocation.again()):
        with suppress(OSError):
            print(f"clusterkit: no other allocation could be asked for: {why}", file=sys.stderr)
    return SUSPENDED

"""Notices: signals to the supervisor of a run that can be continued; some mean that its allocation ends."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from clusterkit.system.barrier import start_thread
from clusterkit.system.inbox import Inbox
from clusterkit.system.process import ENDING
from clusterkit.words.events import AllocationEnding, Interrupted

if TYPE_CHECKING:  # only runs on hosts need it
    from clusterkit.backends.agents.allocation import Allocation

WARNINGS = (signal.SIGURG, signal.SIGUSR1)  # the first ends no process that has not begun to listen
NOTICES = (signal.SIGTERM, *WARNINGS)
HEEDED = (*ENDING, *WARNINGS)
GRACE = 60.0  # seconds that tasks have where only the signal says that the allocation ends


@dataclass(frozen=True, slots=True)
class Notices:
    """Asks the engine, in a thread, what a signal means."""

    allocation: Allocation | None
    inbox: Inbox

    def signalled(self, event: Interrupted) -> None:
        """Take in a signal. For its handler."""
        if event.signal in NOTICES:
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

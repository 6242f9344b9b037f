"""Signals to the supervisor: handlers only append to the inbox. Some say that the run's allocation ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from clusterkit.system.barrier import start_thread
from clusterkit.system.inbox import Inbox
from clusterkit.system.process import ENDING
from clusterkit.words.events import AllocationEnding, Interrupted

if TYPE_CHECKING:  # only runs on hosts need it
    from clusterkit.backends.hosts.allocation import Allocation


def listen(post: Callable[[Interrupted], None], heeded: Sequence[signal.Signals] = ENDING) -> None:
    """Turn signals, those that ask for the end of a run, into events. For the main thread.

    One that is ignored stays ignored, as `nohup` wants it. `SimpleQueue.put` may be called from a handler.
    """

    def handle(number: int, _: FrameType | None) -> None:
        post(Interrupted(number))

    for number in heeded:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)  # the guardian forks with them blocked


def end_with(code: int, heeded: Sequence[signal.Signals] = ENDING) -> None:
    """From now on a signal ends this process with this code: only a slow terminal is still waited for."""
    for number in heeded:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))


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

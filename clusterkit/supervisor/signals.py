"""Signals to the supervisor: which of them announce the allocation's end, and how the next allocation is requested."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from clusterkit.system.barrier import start_thread
from clusterkit.system.inbox import Inbox
from clusterkit.system.process import ENDING
from clusterkit.words.events import AllocationEnding, Interrupted
from clusterkit.words.outcome import SUSPENDED

if TYPE_CHECKING:  # only runs on hosts need this import
    from clusterkit.backends.hosts.allocation import Allocation

WARNINGS = (signal.SIGURG, signal.SIGUSR1)  # SIGURG is harmless to a process without a handler
HANDLED = (*ENDING, *WARNINGS)
WARNING_GRACE = 60.0  # seconds that tasks get if only a signal, and not the engine, announces the end


def listen(post: Callable[[Interrupted], None], signals: Sequence[signal.Signals] = ENDING) -> None:
    """Post an event for each of the `signals` that arrives. To be called by the main thread.

    A signal that is already ignored stays ignored, as `nohup` intends. `post` must be safe to call in a signal handler.
    """

    def handle(number: int, _: FrameType | None) -> None:
        post(Interrupted(number))

    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)  # the signals are blocked while the guardian forks


def end_with(code: int, signals: Sequence[signal.Signals] = ENDING) -> None:
    """Make the `signals` exit with `code` at once, now that only output to a slow terminal can delay the exit."""
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))


@dataclass(frozen=True, slots=True)
class SignalInterpreter:
    """Finds out from the engine, in a thread, whether a signal announces the allocation's end; posts the answer."""

    allocation: Allocation | None
    inbox: Inbox

    def handle(self, event: Interrupted) -> None:
        """Post the signal or, if the engine has to be queried, its meaning. To be called by the signal handler."""
        if event.signal in (signal.SIGTERM, *WARNINGS):
            self.inbox.put(partial(self._query, event))
        else:
            self.inbox.put(event)

    def _query(self, event: Interrupted) -> None:
        try:
            start_thread("notice", lambda: self.inbox.put(self._meaning(event)), self.inbox.put)
        except OSError:  # no thread can be started, so query the engine in the loop's thread
            self.inbox.put(self._meaning(event))

    def _meaning(self, event: Interrupted) -> Interrupted | AllocationEnding:
        ending = None if self.allocation is None else self.allocation.ending(event.signal)
        if ending is None and event.signal in WARNINGS:
            return AllocationEnding(f"the supervisor got {signal.Signals(event.signal).name}", WARNING_GRACE)
        return ending or event


def is_ending(allocation: Allocation | None, inbox: Inbox) -> bool:
    """Return whether the allocation is ending. Also query the engine, since perhaps only lost hosts got the signal."""
    if allocation is None:
        return False
    return inbox.is_moving or isinstance(allocation.ending(signal.SIGTERM, elsewhere=True), AllocationEnding)


def request_next(allocation: Allocation | None) -> int:
    """Request the next allocation of a suspended run, if the engine supports that; return the exit code."""
    if allocation is not None and (why := allocation.request_next()):
        with suppress(OSError):
            print(f"clusterkit: no other allocation could be asked for: {why}", file=sys.stderr)
    return SUSPENDED

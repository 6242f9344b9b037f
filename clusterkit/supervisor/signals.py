"""Signals to the supervisor: which of them announce the allocation's end, and how the next allocation is requested.

The watchdog ends a run whose supervisor does not react to signals in time.
"""

from __future__ import annotations

import enum
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.system.barrier import start_thread
from clusterkit.system.inbox import Inbox
from clusterkit.system.process import ENDING
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import AllocationEnding, Interrupted
from clusterkit.words.job import Limits
from clusterkit.words.outcome import SUSPENDED

if TYPE_CHECKING:
    from clusterkit.backends.hosts.allocation import Allocation

WARNINGS = (signal.SIGURG, signal.SIGUSR1)  # SIGURG is harmless to a process without a handler
HANDLED = (*ENDING, *WARNINGS)
WARNING_GRACE = 60.0  # seconds; the grace period if only a signal, and not the engine, announces the end
REACTS_WITHIN = 5.0  # seconds; the time that a supervisor has to record a signal in its journal
EXTRA_TIME = 10.0  # seconds; the extra time for a supervisor that has reacted, since tasks may die slowly of SIGKILL
SIGINT = 2


def listen(post: Callable[[Interrupted], None], signals: Sequence[signal.Signals] = ENDING) -> None:
    """Post an event for each of the `signals` that arrives. Call this in the main thread.

    A signal that is already ignored stays ignored, as `nohup` intends. `post` must be safe to call in a signal handler.
    """

    def handle(number: int, _: FrameType | None) -> None:
        post(Interrupted(number))

    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)  # the signals are blocked while the guardian forks


def end_with(code: int, signals: Sequence[signal.Signals] = ENDING) -> None:
    """Make each signal end this process with `code` at once, now that only a slow terminal can delay the exit."""
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))


@dataclass(frozen=True, slots=True)
class SignalInterpreter:
    """Finds out from the engine, in a thread, whether a signal announces the allocation's end; posts the answer."""

    allocation: Allocation | None
    inbox: Inbox

    def handle(self, event: Interrupted) -> None:
        """Post the signal or, if the engine has to be queried, its meaning. Called by the signal handler."""
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
    """Return whether the allocation is ending. Query the engine too: the signal may have reached lost hosts only."""
    if allocation is None:
        return False
    return inbox.is_moving or isinstance(allocation.ending(signal.SIGTERM, elsewhere=True), AllocationEnding)


def request_next(allocation: Allocation | None) -> int:
    """Request the next allocation of a suspended run, if the engine supports that; return the exit code."""
    if allocation is not None and (why := allocation.request_next()):
        with suppress(OSError):
            print(f"clusterkit: the next allocation could not be requested: {why}", file=sys.stderr)
    return SUSPENDED


class WatchdogAction(enum.Enum):
    """What the guardian does next."""

    WAIT = enum.auto()
    TERM = enum.auto()  # send SIGTERM to the tasks, in place of the supervisor
    KILL = enum.auto()  # kill the supervisor


@dataclass(slots=True)
class HangDetector:
    """Decides whether the supervisor hangs, by watching whether its journal grows. All times are monotonic seconds.

    If the journal does not grow for REACTS_WITHIN seconds, the tasks get SIGTERM; after `grace` more seconds, the
    supervisor is killed. A supervisor that hangs after a reaction gets EXTRA_TIME more seconds. After a second Ctrl-C,
    the tasks get no grace period. Once the result is written, the supervisor is killed only after a second Ctrl-C.
    """

    grace: float
    first_signal_at: float  # the time at which the first signal arrived
    size: int  # bytes; the size of the journal before the first signal, then at the last check
    interrupted_again_at: float | None = None  # the time at which the second Ctrl-C arrived
    journal_grew_at: float | None = None  # the time at which the journal last grew
    terminated: bool = False  # True once `next_action` has returned TERM

    def note_signal(self, number: int, now: float) -> None:
        """Note that another signal was forwarded to the supervisor."""
        if number == SIGINT and self.interrupted_again_at is None:
            self.interrupted_again_at = now

    def next_action(self, size: int, has_result: bool, now: float) -> WatchdogAction:
        """Return the guardian's next action, given the journal's `size`."""
        if size != self.size:
            self.size, self.journal_grew_at = size, now
        idle = now - max(self.first_signal_at, self.interrupted_again_at or 0.0, self.journal_grew_at or 0.0)
        extra = 0.0 if self.journal_grew_at is None else EXTRA_TIME
        if self.interrupted_again_at is not None:
            return WatchdogAction.KILL if idle >= REACTS_WITHIN + extra else WatchdogAction.WAIT
        if has_result:
            return WatchdogAction.WAIT
        if idle >= self.grace + REACTS_WITHIN + extra:
            return WatchdogAction.KILL
        if self.journal_grew_at is None and idle >= REACTS_WITHIN and not self.terminated:
            self.terminated = True
            return WatchdogAction.TERM
        return WatchdogAction.WAIT


CHECK_EVERY = 0.25  # seconds between checks of the journal


class Watchdog:
    """Checks the run's journal after the first signal. `killed` is a clause about why the supervisor was killed."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._signals: list[tuple[int, float, int]] = []  # appended to by signal handlers
        self._detector: HangDetector | None = None
        self.killed = ""

    def note_signal(self, number: int) -> None:
        """Note that a signal is about to be forwarded to the supervisor. Called by the signal handler."""
        if number in ENDING:
            self._signals.append((number, time.monotonic(), self._size()))

    def check(self, supervisor: int) -> float | None:
        """Check the supervisor, and end it if it hangs; return the seconds until the next check, or None."""
        while self._signals:
            number, at, size = self._signals.pop(0)
            if self._detector is None:
                info = self._run.info()
                grace = Limits().grace if info is None else info.job.limits.grace
                if info is not None and info.job.hosts.count:  # tasks get more time if their allocation ends
                    grace = max(grace, WARNING_GRACE)
                self._detector = HangDetector(grace, at, size)
                self._name = signal.Signals(number).name
            else:
                self._detector.note_signal(number, at)
        if self._detector is None or self.killed:
            return None
        match self._detector.next_action(self._size(), self._run.result_file.exists(), time.monotonic()):
            case WatchdogAction.TERM:
                what = f"the supervisor has not reacted to {self._name} for {REACTS_WITHIN:g} s"
                with suppress(OSError, ValueError):  # the output may be closed
                    print(
                        f"clusterkit: {what}, so its guardian sends SIGTERM to the tasks.", file=sys.stderr, flush=True
                    )
                _end_tasks(supervisor)
            case WatchdogAction.KILL:
                waited = time.monotonic() - self._detector.first_signal_at
                self.killed = f"did not react to {self._name} within {waited:.0f} s and was killed by its guardian"
                os.kill(supervisor, signal.SIGKILL)
        return CHECK_EVERY

    def _size(self) -> int:
        with suppress(OSError):
            return self._run.journal.stat().st_size
        return 0


def _end_tasks(supervisor: int) -> None:
    """Send SIGTERM to each task's process group on this machine, then SIGCONT, so that stopped tasks receive it."""
    with suppress(CannotLook):
        for pid in procfs.descendants(supervisor):
            name, seen = procfs.environ(pid).get("CLUSTERKIT_TASK", ""), procfs.stat(pid)
            if ":" in name and seen is not None and seen[1] == pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGTERM)
                    os.killpg(pid, signal.SIGCONT)

"""The departure of an agent that a signal asks to end: it asks the supervisor, ends its tasks in time, and leaves."""

from __future__ import annotations

from collections.abc import Callable

from clusterkit.backends.link.messages import Drain, KeepRunning, SignalReceived, StopAgent
from clusterkit.words.actions import Signal
from clusterkit.words.events import Exited, Happened, Spawned
from clusterkit.words.model import Task
from clusterkit.words.outcome import signal_name

ANSWERED_WITHIN = 5.0  # seconds for the supervisor to say whether a signal is for this agent alone
OVERDUE = 15.0  # seconds after the grace period, for the supervisor to have seen the end of every task
SIGINT, SIGTERM = 2, 15


class Departure:
    """Pure: `now` is an argument, and each action is a call.

    An engine may send a signal to agent and guardian alike, so that it comes twice; only a second Ctrl-C is in a hurry.
    A supervisor that does not answer is gone or told to end, too: then the agent passes SIGTERM on by itself.
    """

    def __init__(
        self, ask: Callable[[SignalReceived], None], end: Callable[[Signal], None], leave: Callable[[str], None]
    ) -> None:
        self._ask, self._end, self._leave = ask, end, leave
        self._signal: int | None = None
        self._drains = False
        self._alone = False
        self._live: set[tuple[Task, int]] = set()
        self.is_over = False  # the supervisor has seen the end of every task
        self.due: float | None = None  # when the agent continues without an answer
        self.grace: float | None = None  # of the run's tasks; None before there is a run

    def signalled(self, signal: int, now: float) -> None:
        if self._signal is not None:
            if signal == SIGINT:
                self._go()
            return
        self._signal = signal
        if self.grace is None:
            self._go()
            return
        self.due = now + ANSWERED_WITHIN
        self._ask(SignalReceived(signal))

    def answered(self, answer: KeepRunning | Drain | StopAgent, now: float) -> None:
        """Take the supervisor's decision about the signal."""
        match answer:
            case KeepRunning():
                self._signal = self.due = None
            case Drain():
                self._drains, self.due = True, now + (self.grace or 0.0) + OVERDUE
            case StopAgent():
                self.is_over = True
                self._go()

    def note(self, event: Happened) -> None:
        """Keep track of the live tasks."""
        if isinstance(event, Spawned):
            self._live.add((event.task, event.attempt))
        elif isinstance(event, Exited):
            self._live.discard((event.task, event.attempt))
            if self._alone and not self._live:
                self._go()

    def turn(self, now: float) -> None:
        if self.due is None or now < self.due:
            return
        if self._drains or not self._live:
            self._go()
            return
        self._drains = self._alone = True
        self.due = now + (self.grace or 0.0)
        for task, attempt in sorted(self._live):
            self._end(Signal(task, attempt, SIGTERM))

    def _go(self) -> None:
        self.due = None
        self._leave("it was asked to leave" if self._signal is None else f"it got {signal_name(self._signal)}")

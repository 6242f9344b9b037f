"""An agent's departure after a signal: the agent reports the signal to the supervisor, ends its tasks, and exits."""

from __future__ import annotations

from collections.abc import Callable

from clusterkit.backends.link.messages import Drain, KeepRunning, SignalReceived, StopAgent
from clusterkit.words.actions import Signal
from clusterkit.words.events import Exited, Happened, Spawned
from clusterkit.words.model import Task
from clusterkit.words.outcome import signal_name

ANSWERED_WITHIN = 5.0  # seconds; the time limit for the supervisor to answer whether a signal concerns this agent alone
STOP_OVERDUE = 15.0  # seconds; how long to wait for StopAgent after the grace period
SIGINT, SIGTERM = 2, 15


class Departure:
    """The rules of a departure, without side effects: `now` is an argument, and each action is a callback.

    An engine may send a signal to both agent and guardian, so the agent may receive it twice. A second signal is
    therefore ignored, unless it is Ctrl-C, which ends the agent at once. If the supervisor does not answer, the agent
    assumes that the supervisor is gone, and ends its tasks with SIGTERM.
    """

    def __init__(
        self, ask: Callable[[SignalReceived], None], end: Callable[[Signal], None], leave: Callable[[str], None]
    ) -> None:
        self._ask, self._end, self._leave = ask, end, leave
        self._signal: int | None = None
        self._is_draining = False
        self._unsupervised = False
        self._live_attempts: set[tuple[Task, int]] = set()
        self.is_over = False  # True once the supervisor knows that every task has ended
        self.deadline: float | None = None  # the time at which the agent acts if it gets no answer, or None
        self.grace: float | None = None  # seconds; the grace period of the tasks; None before the run is opened

    def signalled(self, signal: int, now: float) -> None:
        if self._signal is not None:
            if signal == SIGINT:
                self._leave_now()
            return
        self._signal = signal
        if self.grace is None:
            self._leave_now()
            return
        self.deadline = now + ANSWERED_WITHIN
        self._ask(SignalReceived(signal))

    def answered(self, answer: KeepRunning | Drain | StopAgent, now: float) -> None:
        """Follow the supervisor's decision about the signal."""
        match answer:
            case KeepRunning():
                self._signal = self.deadline = None
            case Drain():
                self._is_draining, self.deadline = True, now + (self.grace or 0.0) + STOP_OVERDUE
            case StopAgent():
                self.is_over = True
                self._leave_now()

    def track(self, event: Happened) -> None:
        """Keep track of the live attempts. If the supervisor is gone, leave once the last attempt has ended."""
        if isinstance(event, Spawned):
            self._live_attempts.add((event.task, event.attempt))
        elif isinstance(event, Exited):
            self._live_attempts.discard((event.task, event.attempt))
            if self._unsupervised and not self._live_attempts:
                self._leave_now()

    def check_deadline(self, now: float) -> None:
        if self.deadline is None or now < self.deadline:
            return
        if self._is_draining or not self._live_attempts:
            self._leave_now()
            return
        self._is_draining = self._unsupervised = True
        self.deadline = now + (self.grace or 0.0)
        for task, attempt in sorted(self._live_attempts):
            self._end(Signal(task, attempt, SIGTERM, self.grace or 0.0))

    def _leave_now(self) -> None:
        self.deadline = None
        self._leave("it was asked to leave" if self._signal is None else f"it got {signal_name(self._signal)}")

"""The loop: passes events to the state machine, the resulting actions to the backend, and both to observers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from clusterkit.backends.base import Backend
from clusterkit.machine.core import Machine
from clusterkit.system.barrier import crashed
from clusterkit.system.inbox import Inbox
from clusterkit.words.actions import Answer, Finish, Record
from clusterkit.words.events import Began, Continued, Crashed, Event, Happened, Ticked
from clusterkit.words.outcome import RunResult

Answering = Callable[[Answer], None]
Observer = Callable[[Event, float], None]  # takes an event, and the time of the run's clock when it was handled


class Loop(NamedTuple):
    """A run's main loop: passes events to the state machine, its actions to the backend, and both to the observer."""

    machine: Machine
    backend: Backend
    inbox: Inbox
    observe: Observer
    answer: Answering
    first: Began | Continued = Began()
    clock: Callable[[], float] = time.monotonic  # the run's clock, in seconds

    def run(self) -> RunResult:
        """Run a job to its end in this thread. Between events, sleep until the state machine's next deadline at most.

        An exception becomes a Crashed event. Raises only if handling the Crashed event fails, too.
        """
        event: Happened = self.first
        while True:
            try:
                if (result := self._handle(event)) is not None:
                    return result
                event = self._next()
            except Exception as error:
                if isinstance(event, Crashed):
                    raise
                event = crashed("its main loop", error)

    def _handle(self, event: Happened) -> RunResult | None:
        """Handle one event; return the result if the run is over."""
        now = self.clock()
        self.observe(event, now)
        for action in self.machine.handle(event, now):
            match action:
                case Record(decided):
                    self.observe(decided, now)
                case Answer():
                    self.answer(action)
                case Finish(result):
                    return result
                case _:
                    self.backend.do(action)
        return None

    def _next(self) -> Happened:
        while True:
            deadline = self.machine.deadline()
            item = self.inbox.get(None if deadline is None else max(0.0, deadline - self.clock()))
            if not callable(item):
                return item or Ticked()
            item()

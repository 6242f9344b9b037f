"""The loop: events go into the machine one by one, its actions go to the backend, everything into the journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from clusterkit.backends.base import Backend
from clusterkit.machine import Machine
from clusterkit.supervisor.inbox import Inbox
from clusterkit.system.barrier import crashed
from clusterkit.words.actions import (
    Action,
    Answer,
    BeginProfile,
    CloseOutput,
    DumpStacks,
    EndProfile,
    Finish,
    Heal,
    HurrySteps,
    Inject,
    Inspect,
    Record,
    Signal,
    Spawn,
    SpawnWaiting,
    Sweep,
    Withdraw,
)
from clusterkit.words.events import Began, Crashed, Event, Happened, Ticked
from clusterkit.words.outcome import RunResult

Answering = Callable[[Answer], None]
Observer = Callable[[Event, float], None]  # an event and the monotonic time at which it was handled


class Loop(NamedTuple):
    """What one run's loop joins: the machine, what acts for it, and who looks on."""

    machine: Machine
    backend: Backend
    inbox: Inbox
    observe: Observer
    answer: Answering

    def run(self, began: Began) -> RunResult:
        """Run a job to its end in this thread. Sleeps until something happens or the machine's next deadline.

        What fails in here is an event as well. Raises only what the machine raises over that.
        """
        event: Happened = began
        while True:
            try:
                if (result := self._take(event)) is not None:
                    return result
                event = self._next()
            except Exception as error:
                if isinstance(event, Crashed):
                    raise
                event = crashed("its main loop", error)

    def _take(self, event: Happened) -> RunResult | None:
        """Handle one event; the result where it was the last one."""
        now = time.monotonic()
        self.observe(event, now)
        for action in self.machine.handle(event, now):
            if isinstance(action, Finish):
                return action.result
            if isinstance(action, Answer):
                self.answer(action)
                continue
            _act(action, self.backend, self.observe, now)
        return None

    def _next(self) -> Happened:
        deadline = self.machine.deadline()
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        return self.inbox.get(wait) or Ticked()


def _act(action: Action, backend: Backend, observe: Observer, now: float) -> None:
    match action:
        case Record(event):
            observe(event, now)
        case Spawn(task, attempt, reason):
            backend.start(task, attempt, reason)
        case SpawnWaiting():
            backend.start_waiting()
        case Withdraw(task, attempt):
            backend.withdraw(task, attempt)
        case Signal(task, attempt, number):
            backend.signal(task, attempt, number)
        case Sweep(task, attempt):
            backend.sweep(task, attempt)
        case CloseOutput(task, attempt):
            backend.close_output(task, attempt)
        case Inspect(look, why):
            backend.inspect(look, why)
        case DumpStacks(why, tasks):
            backend.dump_stacks(why, tasks)
        case BeginProfile(request, tasks, steps, seconds):
            backend.begin_profile(request, tasks, steps, seconds)
        case EndProfile(request, tasks):
            backend.end_profile(request, tasks)
        case Inject(number, fault, tasks, others):
            backend.inject(number, fault, tasks, others)
        case Heal(number):
            backend.heal(number)
        case HurrySteps():
            backend.hurry_steps()

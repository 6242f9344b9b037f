"""The loop: events go into the machine one by one, its actions go to the backend, everything into the journal."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from clusterkit.backends.base import Backend
from clusterkit.machine import Machine
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
from clusterkit.words.events import Began, Event, Happened, Ticked
from clusterkit.words.outcome import RunResult

Inbox = queue.SimpleQueue[Happened]
Answering = Callable[[Answer], None]
Observer = Callable[[Event, float], None]  # an event and the monotonic time at which it was handled


def run(
    machine: Machine, backend: Backend, inbox: Inbox, observe: Observer, answer: Answering, began: Began
) -> RunResult:
    """Run a job to its end in this thread. Sleeps until something happens or the machine's next deadline."""
    event: Happened = began
    while True:
        now = time.monotonic()
        observe(event, now)
        for action in machine.handle(event, now):
            if isinstance(action, Finish):
                return action.result
            if isinstance(action, Answer):
                answer(action)
                continue
            _act(action, backend, observe, now)
        event = _next(inbox, machine.deadline())


def _next(inbox: Inbox, deadline: float | None) -> Happened:
    try:
        return inbox.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        return Ticked()


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

"""The loop of a run, and its observer, which passes each event to the journal, ledger, console and hooks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from clusterkit.backends.base import Backend
from clusterkit.ledger.ledger import Ledger
from clusterkit.machine import Machine
from clusterkit.store.directory import RunDirectory
from clusterkit.supervisor.lost import keep_crash
from clusterkit.supervisor.prepare import Run
from clusterkit.supervisor.takeover import Past
from clusterkit.system.barrier import crashed
from clusterkit.system.inbox import Inbox
from clusterkit.views.console import Console
from clusterkit.views.narrate import Level, is_bad, sentence
from clusterkit.warm.choice import marks
from clusterkit.words.account import Account
from clusterkit.words.actions import Answer, Finish, Record
from clusterkit.words.events import Began, Continued, Crashed, Event, Happened, Placed, StorageFailed, Ticked
from clusterkit.words.outcome import RunResult

if TYPE_CHECKING:
    from clusterkit.hooks.runner import HookRunner


import json
from pathlib import Path

from clusterkit.words import wire

Answering = Callable[[Answer], None]
Observe = Callable[[Event, float], None]  # an event and the time of the run's clock at which it was handled
OnError = Callable[[str], None]


class Loop(NamedTuple):
    """What a run's loop connects: the machine, the backend that acts for it, and observers."""

    machine: Machine
    backend: Backend
    inbox: Inbox
    observe: Observe
    answer: Answering
    first: Began | Continued = Began()
    clock: Callable[[], float] = time.monotonic  # of the run

    def run(self) -> RunResult:
        """Run a job to its end in this thread. Sleeps until the next event or the machine's next deadline.

        An exception in here becomes a Crashed event. Raises only if the machine fails to handle that, too.
        """
        event: Happened = self.first
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


class Journal:
    """Appends events. `m` is the time of the run's clock, `t` wall time, both in seconds.

    After an error it writes nothing more, and has called `on_error` once.
    """

    def __init__(self, path: Path, wall: Callable[[], float], on_error: OnError) -> None:
        self._file = path.open("ab", buffering=0)
        self._wall = wall
        self._on_error = on_error
        self._failed = False

    def write(self, event: Event, now: float) -> None:
        if self._failed:
            return
        line = {"t": round(self._wall(), 6), "m": now, **wire.encode_event(event)}
        rest = memoryview(json.dumps(line).encode() + b"\n")
        try:
            while rest:  # a nearly full disk accepts only a part
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._failed = True
            self._on_error(f"the journal could not be written: {error.strerror}")

    def close(self) -> None:
        self._file.close()


class Observer:
    """Opens the run's journal. `past` are the events before a continuation, which are told to nobody again."""

    def __init__(self, run: Run, directory: RunDirectory, inbox: Inbox, console: Console, past: Past) -> None:
        self._job, self._level = run.prepared.job, run.display.level
        self.directory, self._inbox, self._console = directory, inbox, console
        self._storage_has_failed = False
        self._hooks: HookRunner | None = None
        self._past = past.events
        self._ledger, ahead = Ledger(self._job), time.time() - past.clock()
        for at, event in past.events:
            self._ledger.take(at, event, at + ahead)
        self._status_line = console.follow(self._ledger.run)
        self._journal = Journal(directory.journal, time.time, self._storage_failed)

    def start_hooks(self, stack: ExitStack) -> None:
        """Start the process of the job's hooks, if it has any. The stack runs the hooks that remain, and ends it."""
        if not self._job.hooks.commands:
            return
        from clusterkit.hooks.runner import HookRunner  # most runs have none

        env = {**marks(self.directory), "CLUSTERKIT_TASK": "hooks"}
        warn = partial(self._console.say, bad=True)
        self._hooks = HookRunner(self._ledger, self.directory, self._inbox, warn, env)
        stack.callback(self._hooks.end)
        self._hooks.recall(self._past)

    def see(self, event: Event, now: float) -> None:
        """Pass on an event that was handled at `now` of the run's clock."""
        self._journal.write(event, now)
        with self._status_line:
            self._ledger.take(now, event, time.time())
        if self._hooks is not None:
            self._hooks.see(event, now)
        if isinstance(event, Crashed):
            self._console.say(keep_crash(self.directory, event), bad=True)
        if isinstance(event, Placed):
            try:
                self.directory.move(event.endpoints)
            except OSError as error:
                self._storage_failed(f"job.json could not be written: {error.strerror}")
        told = sentence(event)
        if told is not None and told[0] >= self._level:
            self._console.say(told[1], bad=is_bad(event))

    @property
    def announce(self) -> Callable[[str], None] | None:
        """Shows a sentence that is not for the journal; None if the user wants no such sentences."""
        return self._console.say if self._level <= Level.INFO else None

    def write_result(self, result: RunResult) -> None:
        try:
            self.directory.write_result(result, self.account())
        except OSError as error:
            self._console.say(f"result.json could not be written: {error.strerror}.", bad=True)

    def account(self) -> Account:
        return self._ledger.account()

    def close(self) -> None:
        self._journal.close()

    def _storage_failed(self, error: str) -> None:
        if not self._storage_has_failed:  # reported once
            self._storage_has_failed = True
            self._inbox.put(StorageFailed(f"{error}. The run directory is {self.directory.path}"))

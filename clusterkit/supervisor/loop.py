"""The loop: passes events to the state machine and an observer, and the machine's actions to the backend."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clusterkit.backends.base import Backend
from clusterkit.ledger.ledger import Ledger
from clusterkit.machine.core import Machine
from clusterkit.store.directory import RunDirectory
from clusterkit.supervisor.crashes import save_crash
from clusterkit.supervisor.past_run import PastRun
from clusterkit.supervisor.prepare import PendingRun
from clusterkit.system.barrier import crashed
from clusterkit.system.inbox import Inbox
from clusterkit.views.console import Console
from clusterkit.views.narrate import Level
from clusterkit.warm.choice import marks
from clusterkit.words import wire
from clusterkit.words.account import Account
from clusterkit.words.actions import Answer, Finish, Record
from clusterkit.words.events import Began, Continued, Crashed, Event, Happened, Placed, StorageFailed, Ticked
from clusterkit.words.outcome import NOT_AS_ASKED, Reservation, RunResult, RunState

if TYPE_CHECKING:
    from clusterkit.hooks.runner import HookRunner

Answering = Callable[[Answer], None]
Observe = Callable[[Event, float], None]  # takes an event, and the time on the run's clock when the event was handled
OnError = Callable[[str], None]


class Loop(NamedTuple):
    """A run's main loop: passes events to the state machine and `observe`, and the machine's actions to the backend."""

    machine: Machine
    backend: Backend
    inbox: Inbox
    observe: Observe
    answer: Answering
    first: Began | Continued = Began()
    clock: Callable[[], float] = time.monotonic  # the run's clock, in seconds

    def run(self) -> RunResult:
        """Run a job to its end in this thread. Between events, sleep at most until the state machine's next deadline.

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


class Observer:
    """Writes events to the journal, ledger, console and hooks. In a continued run, `past_run` has the earlier events.

    The earlier events enter the ledger, but are not written or shown again.
    """

    def __init__(
        self, run: PendingRun, directory: RunDirectory, inbox: Inbox, console: Console, past_run: PastRun
    ) -> None:
        self._job, self._level = run.prepared.job, run.display.level
        self.directory, self._inbox, self._console = directory, inbox, console
        self._storage_has_failed = False
        self._hooks: HookRunner | None = None
        self._past = past_run.events
        self._ledger, offset = Ledger(self._job), time.time() - past_run.clock()
        for at, event in past_run.events:
            self._ledger.add(at, event, at + offset)
        self._status_line = console.follow(self._ledger.run)
        self._journal = Journal(directory.journal, time.time, self._storage_failed)

    def start_hooks(self, stack: ExitStack) -> None:
        """Start the process for the job's hooks, if any. Closing `stack` runs pending hooks and ends the process."""
        if not self._job.hooks.commands:
            return
        from clusterkit.hooks.runner import HookRunner  # imported here, since most runs have no hooks

        env = marks(self.directory, "hooks")
        warn = partial(self._console.say, bad=True)
        self._hooks = HookRunner(self._ledger, self.directory, self._inbox, warn, env)
        stack.callback(self._hooks.end)
        self._hooks.replay(self._past)

    def observe(self, event: Event, now: float) -> None:
        """Record and show an event that was handled at `now`, a time on the run's clock."""
        self._journal.write(event, now)
        with self._status_line:
            self._ledger.add(now, event, time.time())
        if self._hooks is not None:
            self._hooks.observe(event, now)
        if isinstance(event, Crashed):
            self._console.say(save_crash(self.directory, event), bad=True)
        if isinstance(event, Placed):
            self._update_endpoints(event)
        self._console.tell(event, self._level)

    @property
    def announce(self) -> Callable[[str], None] | None:
        """Return a function that shows a line without recording it, or None if the user wants no such lines."""
        return self._console.say if self._level <= Level.INFO else None

    def write_result(self, result: RunResult) -> RunResult:
        """Write the result; return it. A success whose result can't be written has a reservation."""
        try:
            self.directory.write_result(result, self.account())
        except OSError as error:
            self._console.say(f"result.json could not be written: {error.strerror}.", bad=True)
            if result.state is RunState.SUCCEEDED and Reservation.UNSAVED not in self._job.allow:
                return _unsaved(result)
        return result

    def account(self) -> Account:
        return self._ledger.account()

    def close(self) -> None:
        self._journal.close()

    def _update_endpoints(self, placed: Placed) -> None:
        try:
            self.directory.replace_endpoints(placed.endpoints)
        except OSError as error:
            self._storage_failed(f"job.json could not be written: {error.strerror}")

    def _storage_failed(self, error: str) -> None:
        if not self._storage_has_failed:  # report only the first failure
            self._storage_has_failed = True
            self._inbox.put(StorageFailed(f"{error}. The run directory is {self.directory.path}"))


def _unsaved(result: RunResult) -> RunResult:
    """Return the result of a success that is lost for everybody who does not read the console."""
    link = "and" if result.reservations else "but"
    return replace(
        result,
        exit_code=NOT_AS_ASKED,
        reason=f"{result.reason}, {link} its result could not be saved",
        reservations=(*result.reservations, Reservation.UNSAVED),
    )


class Journal:
    """Appends events to a file. In each line, `m` is the time on the run's clock and `t` the wall time, in seconds.

    After the first error the journal calls `on_error` and writes nothing more.
    """

    def __init__(self, path: Path, wall: Callable[[], float], on_error: OnError) -> None:
        self._file = path.open("ab", buffering=0)
        self._wall = wall
        self._on_error = on_error
        self._failed = False

    def write(self, event: Event, now: float) -> None:
        """Append an event that was handled at `now`, a time on the run's clock."""
        if self._failed:
            return
        line = {"t": round(self._wall(), 6), "m": now, **wire.encode_event(event)}
        rest = memoryview(json.dumps(line).encode() + b"\n")
        try:
            while rest:  # a nearly full disk may accept only a part of the line
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._failed = True
            self._on_error(f"the journal could not be written: {error.strerror}")

    def close(self) -> None:
        self._file.close()

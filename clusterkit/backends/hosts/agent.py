"""The agent: runs a host's tasks for a remote supervisor, until the run or the agent's lease ends."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from clusterkit.backends.hosts.departure import Departure
from clusterkit.backends.hosts.fitness import CheckedStarts, NotShared, first_unmet, peers_of, seconds_until_seen
from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.address import own_address
from clusterkit.backends.link.connection import Connection
from clusterkit.backends.link.dialer import Dialer
from clusterkit.backends.link.frames import JSON
from clusterkit.backends.link.spool import Spool
from clusterkit.backends.link.stream import FileRange
from clusterkit.backends.local.backend import LocalBackend
from clusterkit.backends.local.resources import preflight
from clusterkit.backends.local.usage import UsageSampler
from clusterkit.system.inbox import Inbox, Work
from clusterkit.system.ports import port_of
from clusterkit.warm.choice import launch_for
from clusterkit.warm.starter import ForkServerSettings
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Task
from clusterkit.words.outcome import CRASHED, SUSPENDED

FORWARD_EVERY = 0.05  # seconds between checks for files that tasks write on request
FORWARD_FOR = 5.0  # seconds; how long to check for these files after a request
FAREWELL_WITHIN = 2.0  # seconds; how long an agent waits, before it exits, until the supervisor has received the reason
NOT_OPENED = "The supervisor gave an order before it opened the run."
DONE, LOST = 0, 1  # exit codes of an agent, besides SUSPENDED and CRASHED


class Agent:
    """Carries out the supervisor's orders and reports events. Unless stated otherwise, call its methods in one thread.

    If the connection is cut, the agent reconnects, and its tasks continue. When the lease ends, the agent ends them.
    """

    def __init__(self, address: tuple[str, int], key: Path, host: str, timeout: float) -> None:
        self._inbox = Inbox()
        self._stack = ExitStack()
        self._backend: LocalBackend | None = None
        self._spool: Spool | None = None
        self._checked_starts: CheckedStarts | None = None
        self._forward_until = 0.0
        self._endpoints: Mapping[Task, str] = {}
        self._outcome: tuple[int, str] | None = None
        self._connection: Connection | None = None
        self.is_orphan = False  # True once the supervisor has stopped answering
        self._exit_code: int | None = None  # None until the supervisor has ordered the agent to end the run's processes
        self._departure = Departure(self._send, self._do, partial(self._finish, LOST))
        self._session_over = threading.Event()  # set once the session with the supervisor is over
        self._is_cut = False
        self._dialer = Dialer(key, address, host, timeout, self._inbox.put, self)

    def heed_signals(self) -> None:
        """Make signals interrupt waits, so that handlers run at once. Call this in the main thread, before `run`."""
        self._inbox.heed_signals()

    def run(self, lifelines: Mapping[int, str]) -> int:
        """Serve until the run is over; return the exit code."""
        for lifeline, who in lifelines.items():
            self._inbox.watch(lifeline, who)
        try:
            while self._outcome is None:
                self._handle(self._inbox.get(FORWARD_EVERY if self._is_forwarding() else self._seconds_left()))
        finally:
            code, why = self._outcome or (CRASHED, "the agent failed")
            self._end(code, why)
        return code

    # Callbacks of the dialer, in the dialer's thread.

    def connected(self, connection: Connection, host: str) -> None:
        self._connection = connection

    def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
        self._inbox.put(partial(self._receive, message))

    def cut(self, connection: Connection, why: str) -> None:
        self._is_cut = True

    def resumed(self, connection: Connection) -> None:
        self._is_cut = False

    def unreadable(self, connection: Connection, why: str) -> None:
        self._inbox.put(ev.StorageFailed(why))

    def lost(self, connection: Connection, why: str) -> None:
        self.is_orphan = self._exit_code is None and self._outcome is None
        self._session_over.set()
        self._inbox.put(partial(self._finish, LOST, why.rstrip(".")))

    def put(self, event: ev.Happened) -> None:
        """Add an event, such as a signal, to the agent's inbox."""
        self._inbox.put(event)

    # Methods that are called in the agent's thread.

    def _handle(self, item: ev.Happened | Work | None) -> None:
        if callable(item):
            item()
        elif isinstance(item, ev.LifelineLost):
            self._finish(LOST, f"{item.who} is gone")
        elif isinstance(item, ev.Interrupted):
            self._departure.signalled(item.signal, time.monotonic())
        elif item is not None:
            self._report(item)
        if self._spool is not None and self._is_forwarding():
            self._spool.forward()
        self._departure.check_deadline(time.monotonic())

    def _seconds_left(self) -> float | None:
        due = self._departure.deadline
        return None if due is None else max(0.0, due - time.monotonic())

    def _report(self, event: ev.Happened) -> None:
        self._departure.track(event)
        if self._spool is not None and isinstance(event, ev.Inspected | ev.Drained | ev.Exited):
            self._spool.forward()
        if isinstance(event, ev.Profiled) and event.path is not None:
            event = replace(event, path=str(Path(event.path).resolve()))  # resolves the link to the shared directory
        self._send(cast(ms.FromAgent, event))
        if isinstance(event, ev.Crashed):
            _print(event.traceback)
            self._finish(CRASHED, event.sentence)

    def _receive(self, message: Mapping[str, JSON]) -> None:
        order = ms.for_agent(message)
        match order:
            case ms.Open():
                self._send(self._open(order))
            case ms.Claim():
                self._send(self._claim(order))
            case ms.Endpoints():
                self._open_backend.plan(order.endpoints)
                self._endpoints = order.endpoints
            case ms.KeepRunning() | ms.Drain() | ms.StopAgent():
                self._departure.answered(order, time.monotonic())
            case ms.Shut(over):
                self._exit_code = DONE if over else SUSPENDED
                self._stack.close()
                self._send(ms.Gone())
            case _:
                self._do(order)

    def _open(self, order: ms.Open) -> ms.Opened:
        try:
            return self._open_run(order)
        except (OSError, ClusterkitError, NotShared) as error:
            return ms.Opened((str(error),))

    def _open_run(self, order: ms.Open) -> ms.Opened:
        address = own_address(self._dialer.address, order.job.hosts.interface)
        shared = (Path(order.run_directory), Path(order.checkpoints))
        delay = max(seconds_until_seen(directory, order.token, self._wait) for directory in shared)
        os.chdir(order.cwd)
        self._spool = Spool(order, self._send)
        job, directory = order.job, self._spool.directory
        self._departure.grace = job.limits.grace
        job, problems, _ = preflight(job, here=())
        if problems:
            return ms.Opened(tuple(problems))
        self._job = job
        launch = launch_for(job, directory)
        warmth = ForkServerSettings(None if isinstance(launch, str) else launch)
        backend = LocalBackend(job, order.seed, self._inbox, self._spool.send_output, warmth)
        self._stack.callback(backend.shut)
        backend.open(directory)
        places = (directory.path, *shared)
        self._checked_starts = CheckedStarts(
            lambda: partial(first_unmet, places, peers_of(address, self._endpoints), self._inbox.put),
            self._port,
            backend.do,
            self._inbox.put,
        )
        self._backend = backend
        self._stack.callback(self._checked_starts.stop)
        sampler = UsageSampler(
            lambda sample: self._send(ms.Used(sample.tasks, sample.gpus)), backend.pids, self._inbox.put
        )
        self._stack.callback(sampler.stop)
        return ms.Opened((), address, delay)

    def _wait(self, done: Callable[[], bool], within: float) -> bool:
        until = time.monotonic() + within
        while not done() and time.monotonic() < until and not self._inbox.is_ending:
            self._inbox.work_until(done, FORWARD_EVERY)
        return done()

    def _claim(self, order: ms.Claim) -> ms.Claimed:
        backend = self._open_backend
        if problems := preflight(self._job, here=order.here or order.tasks).problems:
            return ms.Claimed({}, "; ".join(problems))
        try:
            ends = backend.claim(order.tasks)
        except (OSError, ClusterkitError) as error:  # no port is free, or a task's directory can't be created
            return ms.Claimed({}, str(error))
        return ms.Claimed({task: port_of(end) for task, end in ends.items()})

    def _port(self, task: Task) -> int | None:
        return port_of(self._endpoints[task]) if task in self._endpoints else None

    def _do(self, order: ac.Order) -> None:
        if self._checked_starts is None:
            raise ms.BadMessage(NOT_OPENED)
        self._checked_starts.do(order)
        writes = isinstance(order, ac.Inspect) and order.look is not ev.Look.PACE
        if isinstance(order, ac.DumpStacks | ac.BeginProfile | ac.EndProfile) or writes:
            self._forward_until = time.monotonic() + FORWARD_FOR

    @property
    def _open_backend(self) -> LocalBackend:
        if self._backend is None:
            raise ms.BadMessage(NOT_OPENED)
        return self._backend

    def _is_forwarding(self) -> bool:
        return time.monotonic() < self._forward_until

    def _send(self, message: ms.FromAgent, body: bytes | FileRange = b"") -> None:
        """Send a message to the supervisor. May be called in any thread."""
        assert self._connection is not None, "the supervisor speaks first"
        self._connection.send(ms.encode(message), body)

    def _finish(self, code: int, why: str) -> None:
        self._outcome = self._outcome or (code if self._exit_code is None or code != LOST else self._exit_code, why)

    def _end(self, code: int, why: str) -> None:
        """End the tasks and the threads. If output was not delivered, keep the spool and print its path."""
        self._stack.close()
        was_received = self._send_reason(why)
        self._dialer.stop()
        if self._spool is None:
            _print(f"clusterkit agent: {why}.\n")
        elif code in (DONE, SUSPENDED):
            self._spool.remove()
        elif was_received and self._departure.is_over:
            self._spool.remove()
            _print(f"clusterkit agent: {why}. The supervisor has all that its tasks wrote.\n")
        else:
            where = self._spool.directory.path
            _print(f"clusterkit agent: {why}. Its tasks were ended; what they wrote is in {where}.\n")

    def _send_reason(self, why: str) -> bool:
        """Send the reason why the agent ends, so that the supervisor does not wait; return whether it was received."""
        if self._connection is None or self._session_over.is_set():
            return False
        self._connection.close(f"Its agent ended: {why}.")
        return self._session_over.wait(FAREWELL_WITHIN) and not self._is_cut


def _print(text: str) -> None:
    """Print a line, unless the agent's output is closed."""
    with suppress(OSError):
        sys.stderr.write(text)

"""Handles the agents' messages: writes output and files in the listener's thread; passes other messages to the loop."""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from clusterkit.backends.hosts.hosts import Grants
from clusterkit.backends.hosts.usage import HostsUsage
from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.connection import Connection
from clusterkit.backends.link.frames import JSON
from clusterkit.backends.link.messages import BadMessage, Output, Written
from clusterkit.backends.local.logs import ArrivalsWriter, Viewer, log_tail
from clusterkit.backends.local.open_phases import OpenPhases
from clusterkit.store.directory import RunDirectory
from clusterkit.store.usage import UsageLog
from clusterkit.system.files import open_fd
from clusterkit.system.inbox import Work
from clusterkit.words.events import Crashed, Drained, Inspected, PhaseChanged, StorageFailed
from clusterkit.words.model import AttemptEvent, Task

if TYPE_CHECKING:
    from clusterkit.backends.hosts.backend import AgentsBackend

# The files that an agent may send: stack dumps, reports, and the values that functions returned.
_TASK = r"(?P<task>(?:chief|worker|ps|evaluator):\d{1,6})"
_STACKS = re.compile(rf"stacks/{_TASK}\.attempt-(?P<attempt>\d{{1,9}})\.txt", re.ASCII)
_REPORT = re.compile(r"stacks/([a-z]{1,20}-\d{1,9}\.txt)", re.ASCII)
_RETURNED = re.compile(rf"tasks/{_TASK}/return-(?P<attempt>\d{{1,9}})\.(?:pkl|json)", re.ASCII)
_UNFIT = re.compile(r"[^\w.-]")
LONGEST = 1 << 40  # bytes; the exclusive maximum of offsets in a file from an agent
MOST_OPEN = 256  # the maximum number of open logs; most processes may have 1,024 descriptors, and each host takes one
Post = Callable[[Drained | StorageFailed | Crashed], None]


class CollectedFiles:
    """Writes the logs, resource usage and other files of the tasks on all hosts to the run directory.

    Output arrives in the listener's thread; the loop's thread closes the logs of attempts that are over.
    """

    def __init__(self, directory: RunDirectory, post: Post, viewer: Viewer) -> None:
        self._directory, self._post, self._viewer = directory, post, viewer
        self._arrivals = ArrivalsWriter(directory.arrivals)
        self.usage = HostsUsage(UsageLog(directory.usage))
        self._logs: dict[tuple[Task, int], BinaryIO] = {}  # open logs, in the order of their last writes
        self._full = False
        self._lock = threading.Lock()  # protects the open logs and the record of arrivals

    def add_output(self, part: Output, data: bytes) -> None:
        try:
            with self._lock:
                log = self._log(part.task, part.attempt)
                log.write(data)
                self._arrivals.add(part.at, str(part.task).encode(), part.attempt, log.tell())
                self._arrivals.write()
        except OSError as error:
            if not self._full:
                self._full = True
                self._post(StorageFailed(f"the log of {part.task} could not be written: {error.strerror}"))
        self._viewer(part.task, part.attempt, data)

    def write_part(self, host: str, part: Written, data: bytes) -> None:
        """Write a part of a file other than a log. Raises BadMessage for a name or offset that no agent sends."""
        path = self._directory.path / self.name_of(host, part.name)
        if not 0 <= part.offset < LONGEST:
            raise BadMessage(f"{part.offset} is not a valid offset in a file.")
        # Ignore a full disk here: it is reported when a log can't be written.
        with suppress(OSError), open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW) as descriptor:
            os.pwrite(descriptor, data, part.offset)

    def name_of(self, host: str, name: str) -> str:
        """Return a file's path in the run directory; a report gets its host's name as a prefix. Raises BadMessage."""
        if _STACKS.fullmatch(name) or _RETURNED.fullmatch(name):
            return name
        if (report := _REPORT.fullmatch(name)) is not None:
            return f"stacks/{_UNFIT.sub('_', host)}-{report[1]}"
        raise BadMessage(f"{name!r:.80} is not a file that an agent sends.")

    def attempt_drained(self, drained: Drained) -> None:
        """Close the log of an attempt whose output is complete, and post the event."""
        with self._lock:
            if (log := self._logs.pop((drained.task, drained.attempt), None)) is not None:
                log.close()
        self._viewer(drained.task, drained.attempt, b"")
        self._post(drained)

    def host_lost(self, task: Task, attempt: int) -> None:
        """Close the log of an attempt whose host is lost, and post Drained."""
        with suppress(OSError):
            with self._directory.log(task, attempt).open("rb") as log:
                tail = log_tail(log.fileno(), os.fstat(log.fileno()).st_size)
            self.attempt_drained(Drained(task, attempt, *tail))
            return
        self.attempt_drained(Drained(task, attempt))  # no output of the attempt has arrived

    def stop(self) -> None:
        with self._lock:
            for log in self._logs.values():
                log.close()
            self._arrivals.close()

    def _log(self, task: Task, attempt: int) -> BinaryIO:
        log = self._logs.pop((task, attempt), None)
        if log is None:
            if len(self._logs) >= MOST_OPEN:
                self._logs.pop(next(iter(self._logs))).close()
            # Unbuffered, so that followers of the log see output at once.
            log = self._directory.log(task, attempt).open("ab", buffering=0)
        self._logs[task, attempt] = log  # moved to the end: this log was written last
        return log


def attempt_named(name: str) -> tuple[Task, int] | None:
    """Return the attempt to which a file from an agent belongs; None for a report, or a name that no agent sends."""
    found = _STACKS.fullmatch(name) or _RETURNED.fullmatch(name)
    if found is None:
        return None
    try:
        return Task.parse(found["task"]), int(found["attempt"])
    except ValueError as error:
        raise BadMessage(str(error)) from None


def joined_reports(reports: list[str]) -> str | None:
    """Merge the reports of several hosts into the file of the first report; return its path."""
    if len(reports) < 2:
        return next(iter(reports), None)
    with suppress(OSError):
        texts = [Path(report).read_text(errors="replace") for report in reports]
        Path(reports[0]).write_text("\n".join(texts))
    return reports[0]


class IncomingMessages:
    """Implements AgentEvents for the listener: passes each call to the backend, in the loop's thread.

    An agent is trusted with the attempts that it was ordered to start, and with nothing else: messages about others
    close its connection.
    """

    def __init__(
        self, grants: Grants, put: Callable[[Work], None], collected: CollectedFiles, backend: AgentsBackend
    ) -> None:
        self._grants = grants
        self._phases = defaultdict[Task, OpenPhases](OpenPhases)
        self._put, self._collected, self._backend = put, collected, backend

    def connected(self, connection: Connection, host: str) -> None:
        self._put(partial(self._backend.agent_connected, connection, host))

    def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
        """Pass a message on. Close the connection of an agent that sends an invalid message."""
        try:
            content = ms.from_agent(message)
            self._check(connection, content)
            if isinstance(content, ms.Output):
                self._collected.add_output(content, body)
            elif isinstance(content, ms.Written):
                self._collected.write_part(connection.host, content, body)
            elif isinstance(content, ms.Used):
                self._collected.usage.add(connection.host, content, self._grants.tasks_of(connection))
            elif not isinstance(content, PhaseChanged) or self._phases[content.task].admits(content):
                self._put(partial(self._backend.received, connection, content))
        except ms.BadMessage as error:
            connection.close(f"The agent on {connection.host} sent a message that agents do not send: {error}")

    def _check(self, connection: Connection, content: ms.FromAgent) -> None:
        """Raise BadMessage for a message about an attempt that the agent was not ordered to start."""
        if isinstance(content, ms.Written):
            about = attempt_named(content.name)
        elif isinstance(content, ms.Output | AttemptEvent):
            about = content.task, content.attempt
        else:
            about = None
        if about is not None and not self._grants.has(connection, *about):
            raise ms.BadMessage(f"attempt {about[1]} of {about[0]} was not placed here.")
        if isinstance(content, Inspected):
            for task in content.vitals.keys() - self._grants.tasks_of(connection):
                raise ms.BadMessage(f"{task} was not placed here.")

    def cut(self, connection: Connection, why: str) -> None:
        self._put(partial(self._backend.connection_cut, connection, why))

    def resumed(self, connection: Connection) -> None:
        self._put(partial(self._backend.connection_resumed, connection))

    def unreadable(self, connection: Connection, why: str) -> None:
        """Do nothing: the supervisor sends no files."""

    def lost(self, connection: Connection, why: str) -> None:
        self._put(partial(self._backend.connection_lost, connection, why))

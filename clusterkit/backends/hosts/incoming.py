"""What agents send, in the listener's thread: output is written right there, the rest becomes work for the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from clusterkit.backends.hosts.collected import Collected
from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.connection import Connection
from clusterkit.backends.link.frames import JSON
from clusterkit.system.inbox import Work
from clusterkit.words.job import JobSpec


class Addressee(Protocol):
    """Who learns of it, in the thread of the loop."""

    def arrived(self, connection: Connection, name: str) -> None:
        """An agent is there."""

    def said(self, connection: Connection, said: ms.FromAgent) -> None:
        """An agent said something."""

    def was_cut(self, connection: Connection, why: str) -> None:
        """There is no connection at present."""

    def is_back(self, connection: Connection) -> None:
        """There is one again."""

    def was_lost(self, connection: Connection, why: str) -> None:
        """There will be none any more."""


class IncomingMessages:
    """The listener's AgentEvents."""

    def __init__(self, job: JobSpec, put: Callable[[Work], None], collected: Collected, to: Addressee) -> None:
        self._tasks = frozenset(job.tasks)
        self._put, self._collected, self._to = put, collected, to

    def connected(self, connection: Connection, host: str) -> None:
        """The session has begun."""
        self._put(partial(self._to.arrived, connection, host))

    def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
        """An agent said something. One that says what no agent says is given up."""
        try:
            said = ms.from_agent(message)
            task = getattr(said, "task", None)
            if task is not None and task not in self._tasks:
                raise ms.BadMessage(f"the job has no {task}.")
            if isinstance(said, ms.Output):
                self._collected.output(said, body)
            elif isinstance(said, ms.Written):
                self._collected.written(connection.host, said, body)
            else:
                self._put(partial(self._to.said, connection, said))
        except ms.BadMessage as error:
            connection.close(f"The agent on {connection.host} said what no agent says: {error}")

    def cut(self, connection: Connection, why: str) -> None:
        """There is no connection at present."""
        self._put(partial(self._to.was_cut, connection, why))

    def resumed(self, connection: Connection) -> None:
        """There is one again."""
        self._put(partial(self._to.is_back, connection))

    def unreadable(self, connection: Connection, why: str) -> None:
        """The supervisor sends no files."""

    def lost(self, connection: Connection, why: str) -> None:
        """There will be none any more."""
        self._put(partial(self._to.was_lost, connection, why))

"""The connection between the supervisor and an agent, as the backend and the agent use it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from clusterkit.backends.link.frames import JSON, Frame
from clusterkit.backends.link.link import Link, reason
from clusterkit.backends.link.session import Closed, Message, Session, message_text
from clusterkit.backends.link.stream import FileRange

SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # worth another try


class Connection(Protocol):
    """An agent, for the supervisor; the supervisor, for an agent. Its methods are for any thread and never wait."""

    @property
    def host(self) -> str:
        """The name of the agent's host; for the agent, the supervisor's address."""

    def send(self, message: Mapping[str, JSON], body: bytes | FileRange = b"") -> None:
        """Send a message, after those sent before. Raises TypeError or ValueError if it can't be sent.

        The message has up to about 1 MiB as JSON, and the body up to 1 MiB. A range of a file is read when it is sent;
        if it can't be read then, the message is left out, and `unreadable` says so.
        """

    def send_text(self, text: bytes) -> None:
        """Send a message that `message_text` made: several connections can send and store the same text."""

    def close(self, why: str) -> None:
        """End the session after everything that was sent; `why` is a sentence, which both sides get with `lost`.

        Messages sent after it are ignored. During a cut, an agent's close waits until the connection is back or the
        lease ends. The supervisor's ends the session at once, and the agent is refused when it comes back.
        """


class AgentEvents(Protocol):
    """What happens to a connection.

    All calls are in the thread of the listener or dialer, and must neither block nor stop it: while it is blocked, no
    heartbeat is sent or answered, and leases go by.

    First `connected`, then messages, cuts and resumptions, then `lost`; a `cut` need not come before that.
    An agent that never reached its supervisor has `lost` alone.
    """

    def connected(self, connection: Connection, host: str) -> None:
        """The session has begun."""

    def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
        """The other side sent a message; each arrives exactly once and in order."""

    def cut(self, connection: Connection, why: str) -> None:
        """There is no connection at present, for a reason given as a clause. It may come back."""

    def resumed(self, connection: Connection) -> None:
        """The connection is back. Nothing was lost."""

    def unreadable(self, connection: Connection, why: str) -> None:
        """A message was skipped because its file can't be read; `why` is a clause."""

    def lost(self, connection: Connection, why: str) -> None:
        """The session is over, for a reason given as a sentence: timed out, closed by either side, or refused."""


class Peer:
    """A Connection over links that come and go. What is not public in Connection is for the poller's thread."""

    def __init__(
        self,
        session: Session,
        host: str,
        events: AgentEvents,
        do: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
    ) -> None:
        self.host = host
        self.why_over: str | None = None
        self.waits_when_closed = True  # for the next link, to deliver what was sent before
        self._session, self._events, self._do, self._clock = session, events, do, clock
        self._link: Link | None = None
        self._began = False

    def send(self, message: Mapping[str, JSON], body: bytes | FileRange = b"") -> None:
        text = message_text(message, body)
        self._do(lambda: self._put(text, body))

    def send_text(self, text: bytes) -> None:
        self._do(lambda: self._put(text, b""))

    def close(self, why: str) -> None:
        self._do(lambda: self._close(why))

    def begin(self, link: Link, greeting: bytes = b"") -> None:
        """Use this link from now on; send the greeting first."""
        if self._link is not None:
            self._link.close()
            self._events.cut(self, "a new connection took its place")
        self._link, link.user = link, self
        if self._began:
            self._events.resumed(self)
        else:
            self._began = True
            self._events.connected(self, self.host)
        if greeting:
            link.send(greeting)
        else:
            link.pump()

    def end(self, why: str, last: bytes = b"") -> None:
        if self.why_over is not None:
            return
        self.why_over = why
        self._session.forget()
        if self._link is not None:
            self._link.close(last)
        self._events.lost(self, why)

    @property
    def is_linked(self) -> bool:
        """Whether there is a link at present."""
        return self._link is not None

    def cut(self, why: str) -> None:
        """Give up the link; the other side may reconnect."""
        if self._link is not None:
            self._link.fail(why)

    def drop(self) -> None:
        """Close the link, without an event."""
        if self._link is not None:
            self._link.close()

    def opened(self, link: Link) -> None:
        """A link opened, which does not belong to a session yet."""

    def received(self, link: Link, frame: Frame) -> None:
        delivered = self._session.receive(frame, self._clock())
        if isinstance(delivered, Message):
            self._events.message(self, delivered.content, delivered.body)
        elif isinstance(delivered, Closed):
            self.end(delivered.why, self._session.acknowledgment())
        self._end_if_closed()

    def next_frame(self) -> bytes | None:
        try:
            return self._session.next_frame(read_range)
        except OSError as error:
            if error.errno in SCARCE and self._link is not None:
                self._link.fail(reason(error))  # the next link tries it again
                return None
            self._events.unreadable(self, f"{error.filename} can't be read: {error.strerror}")
            return self._session.skip()

    def ended(self, link: Link, why: str) -> None:
        self._link = None
        self._events.cut(self, why)
        self._end_if_closed()

    def _put(self, text: bytes, body: bytes | FileRange) -> None:
        if self.why_over is None:
            self._session.put(text, body)
            self._pump()

    def _close(self, why: str) -> None:
        if self.why_over is None:
            self._session.close(why)
            self._pump()
            self._end_if_closed()

    def _pump(self) -> None:
        if self._link is not None:
            self._link.pump()

    def _end_if_closed(self) -> None:
        why = self._session.why_closed
        gave_up = self._link is None and not self.waits_when_closed
        if why is not None and (self._session.is_closed or gave_up):
            self.end(why)


def read_range(part: FileRange) -> bytes:
    """Read a part of a file. Raises OSError, also if the file is shorter."""
    with Path(part.path).open("rb", buffering=0) as file:
        data = os.pread(file.fileno(), part.size, part.offset)
    if len(data) < part.size:
        raise OSError(errno.EIO, f"it has less than {part.offset + part.size} bytes", str(part.path))
    return data

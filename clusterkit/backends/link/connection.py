"""The connection between the supervisor and an agent, as the backend and the agent use it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from clusterkit.backends.link.frames import JSON, Frame
from clusterkit.backends.link.link import Link, LinkOwner, reason
from clusterkit.backends.link.session import Closed, Message, Session, message_text
from clusterkit.backends.link.stream import FileRange

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # temporary shortages; the next link then sends the frame again


class Connection(Protocol):
    """A session with an agent, or with the supervisor. Its methods may be called in any thread and never block."""

    @property
    def host(self) -> str:
        """Return the name of the agent's host or, on the agent's side, the supervisor's address."""

    def send(self, message: Mapping[str, JSON], body: bytes | FileRange = b"") -> None:
        """Send a message, after all earlier messages. Raises TypeError or ValueError if the message can't be sent.

        The limits are about 1 MiB for the message as JSON, and 1 MiB for the body. A range of a file is read when the
        message is sent. If reading fails, the message is skipped, and `unreadable` is called.
        """

    def send_text(self, text: bytes) -> None:
        """Send a message encoded by `message_text`. Several connections can share the same text."""

    def close(self, why: str) -> None:
        """End the session after all earlier messages. On both sides, `lost` is called with `why`, a sentence.

        Later messages are ignored. During a cut, an agent's `close` waits until the connection is back or the lease
        ends. The supervisor's `close` ends the session at once, and the agent is refused when it reconnects.
        """


class AgentEvents(Protocol):
    """The callbacks for the events of a connection.

    They run in the thread of the listener or dialer, and must neither block nor stop that thread: while it is blocked,
    no heartbeat is sent or answered, and leases expire.

    The order is `connected`, then messages, cuts and resumptions, then `lost`, with or without a `cut` before it.
    For an agent that never reached its supervisor, only `lost` is called.
    """

    def connected(self, connection: Connection, host: str) -> None:
        """Called once, when the session begins."""

    def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
        """Called for each message from the peer, exactly once and in order."""

    def cut(self, connection: Connection, why: str) -> None:
        """Called when the connection is interrupted; `why` is a clause. The connection may come back."""

    def resumed(self, connection: Connection) -> None:
        """Called when the connection is back. No message was lost."""

    def unreadable(self, connection: Connection, why: str) -> None:
        """Called when a message was skipped because its file can't be read; `why` is a clause."""

    def lost(self, connection: Connection, why: str) -> None:
        """Called when the session timed out, was closed by either side, or was refused; `why` is a sentence."""


class SessionConnection(LinkOwner):
    """A Connection over a sequence of links. Call the methods that are not Connection's in the poller's thread."""

    def __init__(
        self,
        session: Session,
        host: str,
        events: AgentEvents,
        do: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
    ) -> None:
        self.host = host
        self.end_reason: str | None = None
        self.waits_when_closed = True  # True if `close` waits for the next link, to deliver earlier messages
        self._session, self._events, self._do, self._clock = session, events, do, clock
        self._link: Link | None = None
        self._has_begun = False

    def send(self, message: Mapping[str, JSON], body: bytes | FileRange = b"") -> None:
        text = message_text(message, body)
        self._do(lambda: self._put(text, body))

    def send_text(self, text: bytes) -> None:
        self._do(lambda: self._put(text, b""))

    def close(self, why: str) -> None:
        self._do(lambda: self._close(why))

    def begin(self, link: Link, greeting: bytes = b"") -> None:
        """Use `link` from now on, and send `greeting` first."""
        if self._link is not None:
            self._link.close()
            self._events.cut(self, "a new connection took its place")
        self._link, link.user = link, self
        if self._has_begun:
            self._events.resumed(self)
        else:
            self._has_begun = True
            self._events.connected(self, self.host)
        if greeting:
            link.send(greeting)
        else:
            link.pump()

    def end(self, why: str, last: bytes = b"") -> None:
        if self.end_reason is not None:
            return
        self.end_reason = why
        self._session.forget()
        if self._link is not None:
            self._link.close(last)
        self._events.lost(self, why)

    @property
    def is_linked(self) -> bool:
        """Return whether the session has a link at present."""
        return self._link is not None

    def cut(self, why: str) -> None:
        """Close the link and report a cut; the peer may reconnect."""
        if self._link is not None:
            self._link.fail(why)

    def drop(self) -> None:
        """Close the link without calling a callback."""
        if self._link is not None:
            self._link.close()

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
            if error.errno in SHORTAGES and self._link is not None:
                self._link.fail(reason(error))  # the next link sends the message again
                return None
            self._events.unreadable(self, f"{error.filename} can't be read: {error.strerror}")
            return self._session.skip()

    def ended(self, link: Link, why: str) -> None:
        self._link = None
        self._events.cut(self, why)
        self._end_if_closed()

    def _put(self, text: bytes, body: bytes | FileRange) -> None:
        if self.end_reason is None:
            self._session.put(text, body)
            self._pump()

    def _close(self, why: str) -> None:
        if self.end_reason is None:
            self._session.close(why)
            self._pump()
            self._end_if_closed()

    def _pump(self) -> None:
        if self._link is not None:
            self._link.pump()

    def _end_if_closed(self) -> None:
        why = self._session.close_reason
        gave_up = self._link is None and not self.waits_when_closed
        if why is not None and (self._session.is_closed or gave_up):
            self.end(why)


def read_range(part: FileRange) -> bytes:
    """Read a part of a file. Raises OSError, also for a file that is too short."""
    with Path(part.path).open("rb", buffering=0) as file:
        data = os.pread(file.fileno(), part.size, part.offset)
    if len(data) < part.size:
        raise OSError(errno.EIO, f"it has less than {part.offset + part.size} bytes", str(part.path))
    return data

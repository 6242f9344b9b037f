"""A link: one TCP connection with TLS, which carries frames, in a poller's thread."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

from clusterkit.backends.link.certificate import CHUNK, Tls, Untrusted
from clusterkit.backends.link.frames import BadFrame, Frame, FrameParser
from clusterkit.system.poller import READABLE, WRITABLE, Poller

BATCH = 1 << 14  # bytes; small frames are sent together until they reach this size


class LinkOwner:
    """The callbacks of a link's owner, which run in the poller's thread. The owner of a link can change."""

    def opened(self, link: Link) -> None:
        """Called when the peer has proved that it has the run's key."""

    def received(self, link: Link, frame: Frame) -> None:
        """Called for each frame that arrives. May raise BadFrame, which ends the link."""

    def next_frame(self) -> bytes | None:
        """Return the next frame to send, or None. Called when the link can send more."""
        return None

    def ended(self, link: Link, why: str) -> None:
        """Called when the connection has ended, unless the owner closed it. `why` is a clause."""


class Link:
    """One TCP connection. Call its methods in the poller's thread."""

    def __init__(
        self, poller: Poller, sock: socket.socket, tls: Tls, user: LinkOwner, clock: Callable[[], float]
    ) -> None:
        """Take over a non-blocking socket, which may still be connecting."""
        self.user = user
        self.heard_at = clock()  # the time at which bytes were last received
        self.is_connected = False  # True once TCP is connected
        self.is_closed = False
        self._poller, self._socket, self._tls, self._clock = poller, sock, tls, clock
        self._parser = FrameParser()
        self._unsent = bytearray()
        self._awaited = READABLE | WRITABLE
        poller.watch(sock.fileno(), self._handle, self._awaited)

    def send(self, frame: bytes) -> None:
        """Send a frame ahead of the owner's next frames."""
        self._tls.send(frame)
        self.pump()

    def pump(self) -> None:
        """Send the owner's frames until no frame is left or the socket's buffer is full."""
        while not self.is_closed and self._flush() and self._tls.is_open and (frames := self._next_frames()):
            self._tls.send(frames)

    def close(self, last: bytes = b"") -> None:
        """Close the connection, after a last frame if the socket's buffer has room."""
        if self.is_closed:
            return
        self.is_closed = True
        if last:
            self._tls.send(last)
        with suppress(OSError):
            self._write()  # this may include a TLS alert, which gives the peer the reason for a failure
        self._poller.forget(self._socket.fileno())
        self._socket.close()

    def fail(self, why: str) -> None:
        """Close the connection, and call the owner's `ended`."""
        if not self.is_closed:
            self.close()
            self.user.ended(self, why)

    def _handle(self, events: int) -> None:
        self.is_connected = True
        try:
            if events & ~WRITABLE:  # data, an error, or the end of the stream: reading shows which
                self._read()
            self.pump()
        except (BadFrame, Untrusted) as error:
            self.fail(str(error))

    def _read(self) -> None:
        if not (data := self._receive()):
            return
        self.heard_at = self._clock()
        was_open = self._tls.is_open
        clear = self._tls.receive(data)
        if self._tls.is_open and not was_open:
            self.user.opened(self)
        for frame in self._parser.feed(clear):
            self.user.received(self, frame)
            if self.is_closed:
                return

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            self.fail(reason(error))
            return b""
        if not data:
            self.fail("the other side closed the connection")
        return data

    def _next_frames(self) -> bytes:
        frames = bytearray()
        while len(frames) < BATCH and (frame := self.user.next_frame()) is not None:
            frames += frame
        return bytes(frames)

    def _flush(self) -> bool:
        """Send the pending bytes; return whether all are sent."""
        try:
            self._write()
        except OSError as error:
            self.fail(reason(error))
            return False
        awaited = READABLE | WRITABLE if self._unsent else READABLE
        if awaited != self._awaited:
            self._awaited = awaited
            self._poller.rearm(self._socket.fileno(), awaited)
        return not self._unsent

    def _write(self) -> None:
        self._unsent += self._tls.take()
        with suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]


def reason(error: OSError) -> str:
    """Return the reason for a failure as a clause."""
    return (error.strerror or type(error).__name__).lower()

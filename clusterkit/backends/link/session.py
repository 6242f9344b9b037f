"""Sessions: the state shared by all connections between an agent and its supervisor, and the timeouts of both sides.

The agent's heartbeats contain the time of sending, which the supervisor echoes. The agent's lease ends `timeout` after
the newest echoed time. The supervisor counts the agent as lost after it has received nothing for `timeout` plus a
margin. Since a heartbeat is received later than it is sent, the lease always ends first, whatever the network delays
or loses, and the agent can use the margin to end its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clusterkit.backends.link import frames
from clusterkit.backends.link.frames import JSON, BadFrame, Frame
from clusterkit.backends.link.stream import FileRange, Stream, size_of

BEATS = 5  # the number of heartbeats during the timeout
MARGIN = 2.0  # seconds; the minimum time from the end of an agent's lease until the supervisor counts the agent as lost
LONGEST_MESSAGE = frames.LONGEST_HEADER - 128  # bytes of JSON; leaves room for the fields that the stream adds


@dataclass(frozen=True, slots=True)
class Message:
    """A message from the peer."""

    content: Mapping[str, JSON]
    body: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer closed the session; all of its earlier messages were received."""

    why: str


class Session:
    """The part of a session that is the same on both sides."""

    def __init__(self) -> None:
        self.close_reason: str | None = None  # the reason, if this side closed the session
        self._stream = Stream()
        self._heartbeat: tuple[str, float] | None = None  # the newest heartbeat or echo; sent before any message

    def put(self, text: bytes, body: bytes | FileRange) -> None:
        """Send a message encoded by `message_text`. Messages after `close` are ignored."""
        if self.close_reason is None:
            self._stream.put(text, body)

    def close(self, why: str) -> None:
        """Send a last message, which closes the session after all earlier messages are delivered."""
        if self.close_reason is None:
            self.close_reason = why
            self._stream.put(frames.as_text({"kind": "close", "why": why}), b"")

    @property
    def is_closed(self) -> bool:
        """Return whether the peer has acknowledged that this side closed the session."""
        return self.close_reason is not None and self._stream.is_empty

    def forget(self) -> None:
        self._stream.forget()

    def next_frame(self, read: Callable[[FileRange], bytes]) -> bytes | None:
        """Return the frame to send now, or None. Raises OSError if the frame's file can't be read."""
        if self._heartbeat is not None:
            (kind, time), self._heartbeat = self._heartbeat, None
            return frames.frame({"kind": kind, "time": time, "ack": self._stream.acknowledgment()})
        if (message := self._stream.next()) is not None:
            body = read(message.body) if isinstance(message.body, FileRange) else message.body
            return frames.numbered(message.number, self._stream.acknowledgment(), message.text, body)
        return self.acknowledgment() if self._stream.owes_acknowledgment else None

    def skip(self) -> bytes:
        """Return the frame to send in place of a message that `next_frame` could not read."""
        message = self._stream.skip(frames.as_text({"kind": "gap"}))
        return frames.numbered(message.number, self._stream.acknowledgment(), message.text, b"")

    def acknowledgment(self) -> bytes:
        """Return a frame that only acknowledges received messages."""
        return frames.frame({"kind": "ack", "ack": self._stream.acknowledgment()})

    def receive(self, received: Frame, now: float) -> Message | Closed | None:
        """Process a frame; if it contains a new message or the end of the session, return that. Raises BadFrame."""
        kind = received.kind
        self._stream.acknowledge(received.number("ack"))
        if kind == "message":
            message = Message(received.object("message"), received.body)
            return message if self._is_new(received) else None
        if kind == "close":
            why = received.text("why")
            return Closed(why) if self._is_new(received) else None
        if kind == "gap":
            self._is_new(received)
        elif kind != "ack":
            raise BadFrame(f"a frame of kind {kind!r:.40}")
        return None

    def _is_new(self, received: Frame) -> bool:
        return self._stream.accept(received.number("seq"), received.length)

    def _begin(self, received: int) -> None:
        self._stream.resume(received)
        self._heartbeat = None


class AgentSession(Session):
    """The agent's side of a session. At the time `lease`, the session and the agent's tasks end."""

    def __init__(self, session: str, host: str, timeout: float, now: float) -> None:
        super().__init__()
        self.lease = now + timeout
        self.timeout = timeout
        self._session, self._host = session, host
        self._welcomed = False
        self._attempts = 0
        self._beat_at = now

    def hello(self, now: float) -> bytes:
        self._attempts += 1
        self._beat_at = now
        received = self._stream.acknowledgment()
        return frames.Hello(self._host, self._session, self._welcomed, self._attempts, received, now).encode()

    def welcome(self, answer: Frame) -> None:
        """Process the supervisor's answer to a hello. Raises BadFrame, AgentRefused."""
        welcome = frames.parse_welcome(answer)
        self._begin(welcome.received)
        if not self._welcomed:  # before the first welcome, the lease limits the time to reach the supervisor
            self._welcomed, self.lease = True, 0.0
        self.timeout = welcome.timeout
        self._extend(welcome.time)

    @property
    def next_beat(self) -> float:
        return self._beat_at + self.timeout / BEATS

    def beat(self, now: float) -> None:
        """Make a heartbeat the next frame to send."""
        self._beat_at = now
        self._heartbeat = ("beat", now)

    def receive(self, received: Frame, now: float) -> Message | Closed | None:
        if received.kind != "echo":
            return super().receive(received, now)
        self._stream.acknowledge(received.number("ack"))
        self._extend(received.seconds("time"))
        return None

    def _extend(self, time: float) -> None:
        if time > self._beat_at:
            raise BadFrame("an echo of a heartbeat that was not sent")
        self.lease = max(self.lease, time + self.timeout)


class SupervisorSession(Session):
    """The supervisor's side of a session. The agent is lost at `lost_at`, which each received frame postpones."""

    def __init__(self, timeout: float, now: float) -> None:
        super().__init__()
        self.heard_at = now
        self._timeout = timeout
        self._attempt = 0

    @property
    def silent_at(self) -> float:
        """Return the time at which a silent connection counts as cut. The agent closes it after the same time."""
        return self.heard_at + self._timeout / 2

    @property
    def lost_at(self) -> float:
        return self.heard_at + self._timeout + max(MARGIN, self._timeout / BEATS)

    def welcome(self, hello: frames.Hello, now: float) -> bytes:
        """Begin a connection with the agent; return the answer. Raises BadFrame if a newer connection has begun."""
        if hello.attempt <= self._attempt:
            raise BadFrame("the hello of an older connection")
        self._begin(hello.received)
        self._attempt, self.heard_at = hello.attempt, now
        return frames.Welcome(self._stream.acknowledgment(), hello.time, self._timeout).encode()

    def receive(self, received: Frame, now: float) -> Message | Closed | None:
        self.heard_at = now
        if received.kind != "beat":
            return super().receive(received, now)
        self._stream.acknowledge(received.number("ack"))
        self._heartbeat = ("echo", received.seconds("time"))
        return None


def message_text(message: Mapping[str, JSON], body: bytes | FileRange) -> bytes:
    """Encode a message for `Session.put`. Raises TypeError or ValueError if the message can't be sent."""
    text = frames.as_text({"kind": "message", "message": message})
    if len(text) > LONGEST_MESSAGE:
        raise ValueError(f"A message of {len(text)} bytes is too long; the limit is {LONGEST_MESSAGE}.")
    if size_of(body) > frames.LONGEST_BODY:
        raise ValueError(f"A body of {size_of(body)} bytes is too long; the limit is {frames.LONGEST_BODY}.")
    return text

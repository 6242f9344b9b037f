"""Sessions as histories: greetings, heartbeats, messages and closes; no socket and no clock."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from clusterkit.backends.link.frames import LONGEST_BODY, AgentRefused, BadFrame, FrameParser, parse_hello, refusal
from clusterkit.backends.link.session import (
    LONGEST_MESSAGE,
    MARGIN,
    AgentSession,
    Closed,
    Message,
    Session,
    SupervisorSession,
    message_text,
)
from clusterkit.backends.link.stream import ACKNOWLEDGE_AFTER, FileRange

TIMEOUT = 30.0
ID = "0123456789abcdef" * 2


def nothing(part: FileRange) -> bytes:
    """What is read of a file: as many bytes as there should be."""
    return b"f" * part.size


class Pair:
    """Both sides, and a network between them that takes no time. The agent's clock is 1000 s ahead."""

    def __init__(self) -> None:
        self.agent = AgentSession(ID, "n1", TIMEOUT, 1000.0)
        self.supervisor = SupervisorSession(TIMEOUT, 0.0)
        self.delivered: dict[Session, list[Message | Closed]] = {self.agent: [], self.supervisor: []}

    def connect(self, now: float) -> None:
        """A new connection."""
        (hello,) = FrameParser().feed(self.agent.hello(1000.0 + now))
        (welcome,) = FrameParser().feed(self.supervisor.welcome(parse_hello(hello), now))
        self.agent.welcome(welcome)

    def exchange(self, now: float) -> None:
        """Pass on what both have to send, until there is nothing more."""
        while self.pass_on(self.agent, self.supervisor, now) + self.pass_on(self.supervisor, self.agent, 1000.0 + now):
            pass

    def pass_on(self, sender: Session, receiver: Session, now: float) -> int:
        """Pass on what one has to send; return the number of frames."""
        parser, frames = FrameParser(), 0
        while (data := sender.next_frame(nothing)) is not None:
            for frame in parser.feed(data):
                frames += 1
                if (delivered := receiver.receive(frame, now)) is not None:
                    self.delivered[receiver].append(delivered)
        return frames


@pytest.fixture
def pair() -> Pair:
    """Two sides that are connected."""
    made = Pair()
    made.connect(0.0)
    return made


def put(session: Session, number: int, body: bytes | FileRange = b"") -> None:
    """Send a message with a number."""
    session.put(message_text({"number": number}, body), body)


def test_messages_and_bodies_arrive(pair: Pair) -> None:
    """From memory and from files, in both directions."""
    put(pair.agent, 1, b"one")
    put(pair.agent, 2, FileRange(PurePath("spool"), 0, 3))
    put(pair.supervisor, 3)
    pair.exchange(1.0)
    assert pair.delivered[pair.supervisor] == [Message({"number": 1}, b"one"), Message({"number": 2}, b"fff")]
    assert pair.delivered[pair.agent] == [Message({"number": 3}, b"")]


def test_what_a_connection_lost_is_sent_in_the_next(pair: Pair) -> None:
    """And what arrived is not sent again."""
    put(pair.agent, 1)
    pair.exchange(1.0)
    put(pair.agent, 2)
    assert pair.agent.next_frame(nothing) is not None  # and it is lost
    pair.connect(2.0)
    put(pair.agent, 3)
    pair.exchange(3.0)
    assert pair.delivered[pair.supervisor] == [Message({"number": n}, b"") for n in (1, 2, 3)]


def test_a_heartbeat_extends_the_lease_from_when_it_was_sent(pair: Pair) -> None:
    """However late it is answered."""
    assert pair.agent.lease == 1000.0 + TIMEOUT
    assert pair.agent.next_beat == 1000.0 + TIMEOUT / 5
    pair.agent.beat(1006.0)
    assert pair.agent.next_beat == 1006.0 + TIMEOUT / 5
    assert pair.agent.lease == 1000.0 + TIMEOUT
    pair.exchange(20.0)
    assert pair.agent.lease == 1006.0 + TIMEOUT


def test_whatever_arrives_postpones_the_loss(pair: Pair) -> None:
    """The margin is a part of the timeout, and 2 seconds at least."""
    assert pair.supervisor.lost_at == TIMEOUT + 6.0
    put(pair.agent, 1)
    pair.exchange(5.0)
    assert pair.supervisor.lost_at == 5.0 + TIMEOUT + 6.0
    assert SupervisorSession(1.0, 0.0).lost_at == 1.0 + MARGIN


def test_heartbeats_come_before_messages_and_only_the_newest_is_answered(pair: Pair) -> None:
    """So that neither a long queue nor a slow reader makes them late or many."""
    put(pair.agent, 1, b"x")
    for now in (1006.0, 1012.0):
        pair.agent.beat(now)
    frames = [pair.agent.next_frame(nothing), pair.agent.next_frame(nothing)]
    assert [frame is not None and b'"beat"' in frame for frame in frames] == [True, False]
    assert pair.agent.next_frame(nothing) is None


def test_the_agent_takes_the_supervisors_timeout() -> None:
    """The time in which it looks for the supervisor is its own, and over with the welcome."""
    agent, supervisor = AgentSession(ID, "n1", 300.0, 0.0), SupervisorSession(TIMEOUT, 0.0)
    assert agent.lease == 300.0
    (hello,) = FrameParser().feed(agent.hello(1.0))
    (welcome,) = FrameParser().feed(supervisor.welcome(parse_hello(hello), 0.0))
    agent.welcome(welcome)
    assert agent.lease == 1.0 + TIMEOUT


def test_much_that_is_received_is_acknowledged_without_a_message_of_ones_own(pair: Pair) -> None:
    """Little is not, until the next heartbeat."""
    put(pair.agent, 1, b"x")
    pair.pass_on(pair.agent, pair.supervisor, 1.0)
    assert pair.supervisor.next_frame(nothing) is None
    put(pair.agent, 2, b"x" * ACKNOWLEDGE_AFTER)
    pair.pass_on(pair.agent, pair.supervisor, 1.0)
    assert pair.supervisor.next_frame(nothing) == pair.supervisor.acknowledgment()


def test_long_messages_without_bodies_do_not_wait_for_a_heartbeat(pair: Pair) -> None:
    """What fills the window is what is acknowledged, whatever it consists of."""
    for number in range(100):
        pair.agent.put(message_text({"number": number, "text": "y" * 100_000}, b""), b"")
    pair.exchange(1.0)
    assert len(pair.delivered[pair.supervisor]) == 100


@pytest.mark.parametrize("again", [False, True])
def test_what_can_not_be_read_is_left_out_and_nothing_else(pair: Pair, again: bool) -> None:
    """Its number is used up, also where the connection is lost before the other side has it."""

    def unreadable(part: FileRange) -> bytes:
        raise OSError(5, "Input/output error")

    pair.connect(0.0)
    for number in (1, 2, 3):
        body = FileRange(PurePath("f"), 0, 4) if number == 2 else b""
        pair.agent.put(message_text({"n": number}, body), body)
    first = pair.agent.next_frame(unreadable)
    with pytest.raises(OSError, match="Input/output error"):
        pair.agent.next_frame(unreadable)
    gap = pair.agent.skip()
    if again:
        pair.connect(1.0)
    else:
        assert first is not None
        for frame in FrameParser().feed(first + gap):
            if (delivered := pair.supervisor.receive(frame, 1.0)) is not None:
                pair.delivered[pair.supervisor].append(delivered)
    pair.exchange(2.0)
    assert pair.delivered[pair.supervisor] == [Message({"n": 1}, b""), Message({"n": 3}, b"")]
    pair.agent.close("The end.")
    pair.exchange(3.0)
    assert pair.delivered[pair.supervisor][-1] == Closed("The end.")


def test_a_close_is_delivered_last_and_acknowledged_at_once(pair: Pair) -> None:
    """Then the one who closed knows that everything has arrived."""
    put(pair.agent, 1)
    pair.agent.close("It is over.")
    pair.agent.close("Again.")
    put(pair.agent, 2)
    pair.pass_on(pair.agent, pair.supervisor, 1.0)
    assert pair.delivered[pair.supervisor] == [Message({"number": 1}, b""), Closed("It is over.")]
    assert not pair.agent.is_closed
    (acknowledgment,) = FrameParser().feed(pair.supervisor.acknowledgment())
    pair.agent.receive(acknowledgment, 1001.0)
    assert pair.agent.is_closed


def test_a_hello_that_arrives_late_is_not_the_agents_connection(pair: Pair) -> None:
    """The newer one is, which it made after it had given up the older one."""
    older, newer = (parse_hello(next(FrameParser().feed(pair.agent.hello(1001.0)))) for _ in range(2))
    pair.supervisor.welcome(newer, 2.0)
    with pytest.raises(BadFrame, match="older connection"):
        pair.supervisor.welcome(older, 3.0)
    assert pair.supervisor.lost_at == 2.0 + TIMEOUT + 6.0


def test_a_refusal_says_why(pair: Pair) -> None:
    """To the agent that comes back."""
    pair.agent.hello(1001.0)
    with pytest.raises(AgentRefused, match="Too late"):
        pair.agent.welcome(next(FrameParser().feed(refusal("Too late."))))


@pytest.mark.parametrize("kind", ["echo", "hello", "welcome", "refused", ""])
def test_the_supervisor_takes_what_agents_say(kind: str, pair: Pair) -> None:
    """What supervisors say is an error."""
    with pytest.raises(BadFrame, match="of kind"):
        pair.supervisor.receive(next(FrameParser().feed(b'{"size":0,"ack":0,"kind":"%b"}\n' % kind.encode())), 1.0)


def test_an_echo_of_what_was_not_sent_is_an_error(pair: Pair) -> None:
    """It would extend the lease into the future."""
    echo = next(FrameParser().feed(b'{"size":0,"ack":0,"kind":"echo","time":1001}\n'))
    with pytest.raises(BadFrame, match="not sent"):
        pair.agent.receive(echo, 1001.0)


@pytest.mark.parametrize("body", [b"x" * (LONGEST_BODY + 1), FileRange(PurePath("spool"), 0, LONGEST_BODY + 1)])
def test_a_body_has_its_limit(body: bytes | FileRange) -> None:
    """Whoever sends it is told."""
    with pytest.raises(ValueError, match=r"A body of 1048577 bytes is too long; the limit is 1048576\."):
        message_text({}, body)


@pytest.mark.parametrize("message", [{"x": "y" * LONGEST_MESSAGE}, {"x": float("nan")}])
def test_a_message_has_its_limits(message: dict[str, str | float]) -> None:
    """In length and in what JSON can say."""
    with pytest.raises(ValueError, match=r"too long|not JSON"):
        message_text(message, b"")

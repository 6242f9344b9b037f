"""Flows of the switch: which connections there are, and how each is reset."""

from __future__ import annotations

import pytest

from clusterkit.switch import flows as module
from clusterkit.switch.flows import DOOMED_FOR, Flows
from clusterkit.switch.packets import ACK, FIN, RST, SYN, Segment, reset, reverse

A, B, C = b"\n\x4d\0\1", b"\n\x4d\0\2", b"\n\x4d\0\3"


def flow(source: bytes, destination: bytes, port: int = 1) -> bytes:
    """A flow from a port to port 2222."""
    return source + destination + port.to_bytes(2) + (2222).to_bytes(2)


def connected(*flows: bytes) -> Flows:
    """Flows, each of which a client has begun; the client expects byte 200 next, the server 100."""
    made = Flows()
    for one in flows:
        made.note(Segment(one, SYN, bytes(4)))
        made.note(Segment(reverse(one), SYN | ACK, number(100)))
        made.note(Segment(one, ACK, number(200)))
    return made


def number(value: int) -> bytes:
    """A sequence number."""
    return value.to_bytes(4)


def test_both_ends_get_what_they_expect_next() -> None:
    """The newest that each has acknowledged."""
    flows = connected(flow(A, B))
    flows.note(Segment(flow(B, A)[:8] + flow(A, B)[10:] + flow(A, B)[8:10], ACK, number(150)))
    packets, count = flows.reset(A, B, 0)
    assert count == 1
    assert set(packets) == {reset(reverse(flow(A, B)), number(200)), reset(flow(A, B), number(150))}


def test_only_connections_between_the_two_are_reset() -> None:
    """Whoever of them has begun it, and all of them."""
    flows = connected(flow(A, B, 1), flow(A, B, 2), flow(B, A, 3), flow(A, C, 4), flow(C, B, 5))
    assert flows.reset(B, A, 0)[1] == 3
    assert flows.reset(B, A, 0) == ([], 0)
    assert flows.reset(C, B, 0)[1] == 1


def test_half_a_connection_is_reset_where_it_is() -> None:
    """A server that has answered expects something; a client that waits for the answer does not."""
    flows = Flows()
    flows.note(Segment(flow(A, B), SYN, bytes(4)))
    assert flows.reset(A, B, 0) == ([], 0)
    flows.note(Segment(reverse(flow(A, B)), SYN | ACK, number(100)))
    assert flows.reset(A, B, 0) == ([reset(flow(A, B), number(100))], 1)


def test_what_still_comes_is_answered_with_its_own_number() -> None:
    """So an end that expected something else learns of the reset from the answer to what it sends."""
    flows = connected(flow(A, B))
    flows.reset(A, B, 10)
    late = Segment(reverse(flow(A, B)), ACK, number(160))
    assert flows.answer(late, 11) == [reset(flow(A, B), number(160))]
    assert flows.answer(Segment(flow(A, B), RST, number(0)), 11) == []
    assert flows.answer(Segment(flow(A, B, 2), ACK, number(0)), 11) is None
    assert flows.answer(late, 10 + DOOMED_FOR) is None


def test_a_connection_that_begins_anew_is_not_answered() -> None:
    """The same ports may come again."""
    flows = connected(flow(A, B))
    flows.reset(A, B, 10)
    assert flows.answer(Segment(flow(A, B), SYN, bytes(4)), 11) is None
    assert flows.answer(Segment(reverse(flow(A, B)), SYN | ACK, number(1)), 11) is None


@pytest.mark.parametrize("flags", [RST, RST | ACK])
def test_a_connection_that_an_end_has_reset_is_forgotten(flags: int) -> None:
    """What follows belongs to none."""
    flows = connected(flow(A, B))
    flows.note(Segment(reverse(flow(A, B)), flags, number(100)))
    flows.note(Segment(flow(A, B), ACK, number(300)))
    assert flows.acks == {}


def test_a_connection_that_both_have_finished_is_forgotten() -> None:
    """One that only one end has finished still goes on."""
    flows = connected(flow(A, B))
    flows.note(Segment(flow(A, B), FIN | ACK, number(200)))
    flows.note(Segment(reverse(flow(A, B)), ACK, number(101)))
    assert flows.acks == {flow(A, B): number(200), reverse(flow(A, B)): number(101)}
    flows.note(Segment(reverse(flow(A, B)), FIN | ACK, number(101)))
    flows.note(Segment(flow(A, B), ACK, number(201)))
    assert flows.acks == {}


def test_the_oldest_are_forgotten_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole connections, with both their directions."""
    monkeypatch.setattr(module, "MOST", 4)
    flows = connected(flow(A, B, 1), flow(A, B, 2), flow(A, B, 3))
    assert set(flows.acks) == {both for port in (2, 3) for both in (flow(A, B, port), reverse(flow(A, B, port)))}

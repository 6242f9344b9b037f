"""Flows: the connections that the kernel lists, and the replies to what their ends send."""

from __future__ import annotations

import socket
import struct
import sys

import pytest

from clusterkit.network.switch.resets import (
    ACK,
    RST,
    SYN,
    TcpSegment,
    forge,
    parse_table,
    probe,
    replies,
    reverse,
    segment_of,
)

A, B = socket.inet_aton("10.77.0.1"), socket.inet_aton("10.77.0.2")
FLOW = B + A + struct.pack("!HH", 40000, 2222)  # towards A
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
NUMBER = (160).to_bytes(4)
little = pytest.mark.skipif(sys.byteorder != "little", reason="the table is of a machine of the usual byte order")


def table(*rows: str) -> str:
    """The kernel's table with these rows of addresses and state."""
    rest = "00000000:00000000 00:00000000 00000000     0        0 7441 1 0000000000000000 20 4 30 10 -1\n"
    return HEADER + "".join(f"   {number}: {row} {rest}" for number, row in enumerate(rows))


@little
def test_an_end_is_listed_with_the_flow_towards_it() -> None:
    """In the byte order of packets."""
    assert list(parse_table(table("01004D0A:08AE 02004D0A:9C40 01"))) == [FLOW]


@little
def test_an_end_that_also_accepts_ipv6_is_listed_too() -> None:
    """As gRPC's servers do. Connections over IPv6 are left out, since the switch does not carry IPv6."""
    mapped = "0000000000000000FFFF000001004D0A:08AE 0000000000000000FFFF000002004D0A:9C40 01"
    other = "00000000000000000000000001000000:08AE 00000000000000000000000001000000:9C40 01"
    assert list(parse_table(table(mapped, other))) == [FLOW]


@little
@pytest.mark.parametrize(
    ("state", "is_live"),
    [("01", True), ("03", True), ("04", True), ("05", True), ("08", True)]
    + [(state, False) for state in ("02", "06", "07", "09", "0A", "0B")],
)
def test_only_live_ends_are_listed(state: str, is_live: bool) -> None:
    """A probe, a bare SYN, would open a connection at an end that listens or is in TIME_WAIT."""
    assert bool(list(parse_table(table(f"01004D0A:08AE 02004D0A:9C40 {state}")))) is is_live


def test_an_empty_table_has_none() -> None:
    """It consists of the header alone."""
    assert list(parse_table(table())) == []


def test_a_probe_is_a_bare_syn() -> None:
    """Without an acknowledgement number."""
    assert segment_of(probe(FLOW)) == (FLOW, SYN, bytes(4))


def test_a_segment_is_answered_with_its_own_number() -> None:
    """The sender has to accept the reset, since it has exactly the number that is expected next."""
    doomed = {FLOW, reverse(FLOW)}
    for flow in doomed:
        assert replies(TcpSegment(flow, ACK, NUMBER), doomed) == [forge(reverse(flow), RST, NUMBER)]
    assert replies(TcpSegment(FLOW, SYN | ACK, NUMBER), doomed) == [forge(reverse(FLOW), RST, NUMBER)]
    assert len(doomed) == 2


@pytest.mark.parametrize("flags", [RST, RST | ACK])
def test_a_reset_gets_no_answer(flags: int) -> None:
    """Its sender has closed the connection."""
    assert replies(TcpSegment(FLOW, flags, NUMBER), {FLOW, reverse(FLOW)}) == []


def test_other_connections_are_left_alone() -> None:
    """Even between the same hosts."""
    assert replies(TcpSegment(FLOW[:8] + bytes(4), ACK, NUMBER), {FLOW, reverse(FLOW)}) is None


def test_a_new_connection_on_the_same_ports_is_not_reset() -> None:
    """The same ports may be used again; then neither direction is doomed any longer."""
    doomed = {FLOW, reverse(FLOW)}
    assert replies(TcpSegment(FLOW, SYN, bytes(4)), doomed) is None
    assert doomed == set()

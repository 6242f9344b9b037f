"""Flows: lists the TCP connections of a host, and makes the packets that reset the ends of one.

A flow is one direction of a connection: source address, destination address and both ports, 12 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from clusterkit.network.switch.packets import ACK, RST, SYN, Segment, forge, reverse

TABLES = ("tcp", "tcp6")  # an IPv6 listener accepts IPv4 too, and the kernel lists those connections in tcp6
# States in which a connection may still carry data: established, SYN received, closed by one of the two ends.
_LIVE = frozenset(("01", "03", "04", "05", "08"))
_MAPPED = bytes(10) + b"\xff\xff"  # the prefix of an IPv4-mapped IPv6 address


def local_flows() -> set[bytes]:
    """Return the incoming flow of each connection in this process's network namespace. Takes up to 10 ms."""
    found = set[bytes]()
    for table in TABLES:
        path = Path("/proc/self/net", table)
        if path.exists():  # else a kernel without IPv6
            found.update(parse_table(path.read_text()))
    return found


def parse_table(table: str) -> Iterator[bytes]:
    """Yield the incoming flow of each live connection in the text of /proc/net/tcp or tcp6 (man 5 proc)."""
    for line in table.splitlines()[1:]:
        _, here, there, state, *_ = line.split()
        if state in _LIVE:
            local, port = _endpoint(here)
            remote, from_port = _endpoint(there)
            if len(local) == len(remote) == 4:
                yield remote + local + from_port + port


def probe(flow: bytes) -> bytes:
    """Make a packet to which the end of an established connection replies with the sequence number that it expects.

    RFC 5961, 4.2: an end answers any SYN, whatever its number, with an acknowledgement, and otherwise ignores it.
    """
    return forge(flow, SYN)


def replies(segment: Segment, doomed: set[bytes]) -> list[bytes] | None:
    """Return the packets that reset the segment's sender, if its flow is in `doomed`; None if the segment may pass.

    A SYN that opens a new connection on the same ports removes both flows from `doomed`.
    """
    flow = segment.flow
    if flow not in doomed:
        return None
    if segment.flags & SYN and not segment.flags & ACK:
        doomed -= {flow, reverse(flow)}
        return None
    # The very number that it expects: any other within the window only gets an acknowledgement (RFC 5961, 3.2).
    return [] if segment.flags & RST else [forge(reverse(flow), RST, segment.ack)]


def _endpoint(text: str) -> tuple[bytes, bytes]:
    """Parse address and port into network byte order; the kernel prints an address as 32-bit words of the host's."""
    address, port = text.split(":")
    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
    return struct.pack(f"={len(words)}I", *words).removeprefix(_MAPPED), int(port, 16).to_bytes(2)

"""Flows: the TCP connections of a host, as its kernel lists them, and how each end of one is reset."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from clusterkit.network.switch.packets import ACK, RST, SYN, Segment, forged, reverse

TABLES = ("tcp", "tcp6")  # what listens to IPv6 takes IPv4, too, and has it in the other table
# States of an end from which something is still expected: established, answered, closed by one of the two.
_LIVE = frozenset(("01", "03", "04", "05", "08"))
_MAPPED = bytes(10) + b"\xff\xff"  # before an IPv4 address that is written as one of IPv6


def own_flows() -> set[bytes]:
    """For each end of a connection in the network namespace of this process, the flow towards it. Takes up to 10 ms."""
    found = set[bytes]()
    for table in TABLES:
        path = Path("/proc/self/net", table)
        if path.exists():  # else a kernel without IPv6
            found.update(listed(path.read_text()))
    return found


def listed(table: str) -> Iterator[bytes]:
    """The flows towards the ends that are in such a table (man 5 proc)."""
    for line in table.splitlines()[1:]:
        _, here, there, state, *_ = line.split()
        if state in _LIVE:
            local, port = _place(here)
            remote, from_port = _place(there)
            if len(local) == len(remote) == 4:
                yield remote + local + from_port + port


def question(flow: bytes) -> bytes:
    """A packet that the end of an established connection answers with the number that it expects next.

    RFC 5961, 4.2: to any SYN, whatever its number, it sends an acknowledgement, and goes on as if there had been none.
    """
    return forged(flow, SYN)


def answer(segment: Segment, doomed: set[bytes]) -> list[bytes] | None:
    """What its sender gets instead, where the segment is of a connection that is reset; None where it is not."""
    flow = segment.flow
    if flow not in doomed:
        return None
    if segment.flags & SYN and not segment.flags & ACK:  # the same ports begin anew
        doomed -= {flow, reverse(flow)}
        return None
    # Exactly what it expects next: any other number within the window is answered, and ends nothing (RFC 5961, 3.2).
    return [] if segment.flags & RST else [forged(reverse(flow), RST, segment.ack)]


def _place(text: str) -> tuple[bytes, bytes]:
    """The address and the port, as packets have them; the kernel prints an address as numbers of its own byte order."""
    address, port = text.split(":")
    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
    return struct.pack(f"={len(words)}I", *words).removeprefix(_MAPPED), int(port, 16).to_bytes(2)

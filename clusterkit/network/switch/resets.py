"""Resets all TCP connections between two hosts, even idle connections and connections that use cables."""

from __future__ import annotations

import functools
import itertools
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from clusterkit.network.switch.devices import Pair
from clusterkit.network.switch.directions import Directions
from clusterkit.network.switch.system import enter

LONGEST = 65535  # bytes; the maximum size of an IPv4 packet
PLAIN_HEADER = 0x45  # the first byte of an IPv4 header without options
TCP = 6
SYN, RST, ACK = 0x02, 0x04, 0x10
TABLES = ("tcp", "tcp6")  # IPv4 connections to an IPv6 listener are listed in tcp6
# The kernel's numbers of states in which data may still be sent: established, SYN received, closed by one end only.
_LIVE = frozenset(("01", "03", "04", "05", "08"))
_MAPPED = bytes(10) + b"\xff\xff"  # the prefix of an IPv4-mapped IPv6 address
_FRAGMENT_OFFSET = 0x1FFF
_IP, _TCP = struct.Struct("!BBHHHBBH8s"), struct.Struct("!4s4s4sBBHHH")
_DO_NOT_FRAGMENT, _TTL = 0x4000, 64
PROBE_EVERY = 0.6  # seconds between probes of a connection; the kernel answers at most two probes per second
PROBES = 3  # the number of probes of each connection
Flows = Mapping[Pair, set[bytes]]


class TcpSegment(NamedTuple):
    flow: bytes
    flags: int
    ack: bytes


def segment_of(packet: bytes) -> TcpSegment | None:
    """Parse the TCP header of a packet; return None if the packet has no complete TCP header."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != TCP:
        return None
    start = (packet[0] & 15) * 4
    if start < 20 or len(packet) < start + 20 or int.from_bytes(packet[6:8]) & _FRAGMENT_OFFSET:
        return None
    return TcpSegment(packet[12:20] + packet[start : start + 4], packet[start + 13], packet[start + 8 : start + 12])


def reverse(flow: bytes) -> bytes:
    return flow[4:8] + flow[:4] + flow[10:12] + flow[8:10]


def forge(flow: bytes, flags: int, sequence: bytes = bytes(4)) -> bytes:
    """Build an IPv4 packet of this flow that contains a TCP segment without data."""
    segment = _TCP.pack(flow[8:12], sequence, bytes(4), 5 << 4, flags, 0, 0, 0)
    pseudo_header = flow[:8] + struct.pack("!HH", TCP, len(segment))
    segment = segment[:16] + checksum(pseudo_header + segment).to_bytes(2) + segment[18:]
    header = _IP.pack(PLAIN_HEADER, 0, 20 + len(segment), 0, _DO_NOT_FRAGMENT, _TTL, TCP, 0, flow[:8])
    return header[:10] + checksum(header).to_bytes(2) + header[12:] + segment


def checksum(data: bytes) -> int:
    """Compute the internet checksum (RFC 1071). The result is 0 if the data includes its own correct checksum."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def local_flows() -> set[bytes]:
    """Return the incoming flows of all live connections in this process's network namespace. Takes up to 10 ms."""
    flows = set[bytes]()
    for table in TABLES:
        path = Path("/proc/self/net", table)
        if path.exists():  # a kernel without IPv6 has no tcp6
            flows.update(parse_table(path.read_text()))
    return flows


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
    """Build a SYN packet. The receiver's reply contains the sequence number that it expects (RFC 5961, section 4.2)."""
    return forge(flow, SYN)


def replies(segment: TcpSegment, doomed: set[bytes]) -> list[bytes] | None:
    """Return packets that reset the sender of a segment if its flow is in `doomed`; None if the segment may pass.

    If the segment is a SYN that opens a new connection on the same ports, both flows of the old connection are removed
    from `doomed`.
    """
    flow = segment.flow
    if flow not in doomed:
        return None
    if segment.flags & SYN and not segment.flags & ACK:
        doomed -= {flow, reverse(flow)}
        return None
    # The sender accepts only a reset with the sequence number that it expects (RFC 5961, section 3.2).
    return [] if segment.flags & RST else [forge(reverse(flow), RST, segment.ack)]


def _endpoint(text: str) -> tuple[bytes, bytes]:
    """Parse an address and a port; return both in network byte order. The kernel prints words in host byte order."""
    address, port = text.split(":")
    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
    return struct.pack(f"={len(words)}I", *words).removeprefix(_MAPPED), int(port, 16).to_bytes(2)


@dataclass(slots=True)
class Resets:
    """The resets in progress. A host that sends a packet of a flow in `Direction.flows_to_reset` receives a reset.

    On an idle connection, a probe makes the host send a packet, or a reset if the connection is already closed. Probes
    are repeated, since data that arrives between the reply and the reset makes the reset's sequence number stale.
    """

    namespaces: Sequence[int]
    directions: Directions
    inject: Callable[[bytes], None]
    call_at: Callable[[float, Callable[[float], None]], None]

    def begin(self, pairs: Iterable[Pair]) -> int:
        """Reset all TCP connections between the hosts of each pair; return their number. Raises NotPossible."""
        begun = dict[Pair, set[bytes]]()
        for pair, flows in self._flows({(min(pair), max(pair)) for pair in pairs}).items():
            doomed = self.directions.of(*pair).flows_to_reset
            if new := flows - doomed:
                begun[pair] = new
                doomed |= new
        if begun:
            self._probe(begun, PROBES, time.monotonic())
        return sum(map(len, begun.values())) // 2

    def _probe(self, begun: Flows, left: int, now: float) -> None:
        if left:
            self.call_at(now + PROBE_EVERY, functools.partial(self._probe, begun, left - 1))
        else:
            for pair, flows in begun.items():
                self.directions.of(*pair).flows_to_reset.difference_update(flows)
        self.directions.update_routes(self.directions.both_directions(begun))
        for pair, flows in begun.items():
            for flow in flows & self.directions.of(*pair).flows_to_reset:  # skips ports that a new connection reuses
                self.inject(probe(flow))

    def _flows(self, pairs: set[Pair]) -> Flows:
        """Return both flows of each connection between the hosts of each pair, by reading one host per pair."""
        frequency = Counter(itertools.chain.from_iterable(pairs))  # prefer hosts in many pairs, to read few hosts
        listed = {pair: max(pair, key=lambda host: (frequency[host], host)) for pair in pairs}
        flows = defaultdict[bytes, set[bytes]](set)
        for host in set(listed.values()):
            enter(self.namespaces[host])
            for flow in local_flows():
                flows[flow[:8]].add(flow)
        return {pair: self._between(*pair, flows) for pair in sorted(pairs)}

    def _between(self, a: int, b: int, flows: Mapping[bytes, set[bytes]]) -> set[bytes]:
        here, there = self.directions.addresses[a], self.directions.addresses[b]
        one_way = flows.get(here + there, set()) | flows.get(there + here, set())
        return {flow for each in one_way for flow in (each, reverse(each))}

"""Packets: parses the TCP header of IPv4 packets, and forges TCP segments."""

from __future__ import annotations

import struct
from typing import NamedTuple

LONGEST = 65535  # bytes of an IPv4 packet
PLAIN_HEADER = 0x45  # the first byte of an IPv4 header without options
TCP = 6
SYN, RST, ACK = 0x02, 0x04, 0x10
_FRAGMENT_OFFSET = 0x1FFF
_IP, _TCP = struct.Struct("!BBHHHBBH8s"), struct.Struct("!4s4s4sBBHHH")
_DO_NOT_FRAGMENT, _TTL = 0x4000, 64


class Segment(NamedTuple):
    """The fields of a TCP header. `flow` is source address, destination address and both ports: 12 bytes."""

    flow: bytes
    flags: int
    ack: bytes


def segment_of(packet: bytes) -> Segment | None:
    """Parse the TCP header of a packet; None if it has none, or a truncated one."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != TCP:
        return None
    start = (packet[0] & 15) * 4
    if start < 20 or len(packet) < start + 20 or int.from_bytes(packet[6:8]) & _FRAGMENT_OFFSET:
        return None
    return Segment(packet[12:20] + packet[start : start + 4], packet[start + 13], packet[start + 8 : start + 12])


def reverse(flow: bytes) -> bytes:
    """Return the other direction of a flow."""
    return flow[4:8] + flow[:4] + flow[10:12] + flow[8:10]


def forge(flow: bytes, flags: int, sequence: bytes = bytes(4)) -> bytes:
    """Make a packet of that flow: a TCP segment without data."""
    segment = _TCP.pack(flow[8:12], sequence, bytes(4), 5 << 4, flags, 0, 0, 0)
    pseudo_header = flow[:8] + struct.pack("!HH", TCP, len(segment))
    segment = segment[:16] + checksum(pseudo_header + segment).to_bytes(2) + segment[18:]
    header = _IP.pack(PLAIN_HEADER, 0, 20 + len(segment), 0, _DO_NOT_FRAGMENT, _TTL, TCP, 0, flow[:8])
    return header[:10] + checksum(header).to_bytes(2) + header[12:] + segment


def checksum(data: bytes) -> int:
    """Compute the internet checksum (RFC 1071); it is 0 over data that includes its correct checksum."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF

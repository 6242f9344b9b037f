"""Packets: parsing TCP headers, and forging segments."""

from __future__ import annotations

import socket
import struct

import pytest

from clusterkit.network.switch.resets import ACK, RST, SYN, checksum, forge, reverse, segment_of

A, B = socket.inet_aton("10.77.0.1"), socket.inet_aton("10.77.0.2")
FLOW = A + B + struct.pack("!HH", 40000, 2222)


def packet(protocol: int = 6, options: bytes = b"", flags: int = ACK, fragment: int = 0, version: int = 4) -> bytes:
    """An IPv4 packet of the flow, with a TCP header."""
    header_words = (20 + len(options)) // 4
    header = struct.pack("!BBHHHBBH", version << 4 | header_words, 0, 0, 0, fragment, 64, protocol, 0) + A + B + options
    return header + FLOW[8:] + b"SEQ." + b"ACK." + bytes([5 << 4, flags]) + bytes(6) + b"data"


def test_a_checksum_is_the_one_of_the_rfc() -> None:
    """RFC 1071's example; data that includes its checksum sums up to 0, also at an odd length."""
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF ^ 0xDDF2
    assert checksum(bytes.fromhex("0001f203f4f5f6f7220d")) == 0
    assert checksum(b"\x01") == checksum(b"\x01\x00")


def test_a_segment_is_read() -> None:
    """Also with options in the IP header."""
    for options in (b"", bytes(8)):
        segment = segment_of(packet(options=options, flags=SYN | ACK))
        assert segment == (FLOW, SYN | ACK, b"ACK.")


@pytest.mark.parametrize(
    "other",
    [
        b"",
        packet()[:39],
        packet(protocol=17),
        packet(version=6),
        packet(fragment=100),
        packet(options=bytes(40))[:60],
        b"\x41" + packet()[1:],
    ],
)
def test_an_invalid_segment_is_none(other: bytes) -> None:
    """Nothing, half a header, UDP, IPv6, a later fragment, options without what follows, a header that is too short."""
    assert segment_of(other) is None


def test_the_first_fragment_has_the_header() -> None:
    """The bit that forbids fragments is not an offset."""
    assert segment_of(packet(fragment=0x2000)) is not None
    assert segment_of(packet(fragment=0x4000)) is not None


def test_a_flow_can_be_reversed() -> None:
    """Addresses and ports are swapped."""
    assert reverse(FLOW) == B + A + struct.pack("!HH", 2222, 40000)
    assert reverse(reverse(FLOW)) == FLOW


def test_a_forged_segment_has_the_number_and_correct_checksums() -> None:
    """It is a whole packet that consists of the headers."""
    made = forge(FLOW, RST, b"\x01\x02\x03\x04")
    assert len(made) == 40
    assert int.from_bytes(made[2:4]) == 40
    assert segment_of(made) == (FLOW, RST, bytes(4))
    assert made[24:28] == b"\x01\x02\x03\x04"
    assert checksum(made[:20]) == 0
    assert checksum(made[12:20] + struct.pack("!HH", 6, 20) + made[20:]) == 0

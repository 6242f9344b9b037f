"""Identifies the user whose process is the peer of a TCP connection within this machine.

Any user can connect to a port of the loopback interface, so a server for one user has to check its peers.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator

TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
READS = 3  # the number of times that the tables are read, since a read can miss a line if a table changes meanwhile
MAPPED = bytes(10) + b"\xff\xff"  # the prefix of an IPv4-mapped IPv6 address


def is_own(connection: socket.socket) -> bool:
    """Return whether the peer is a process of this user or of root."""
    return uid_of(connection) in (os.getuid(), 0)


def uid_of(connection: socket.socket) -> int | None:
    """Return the user id of the peer's process; None if it is unknown, for example if the peer has disconnected."""
    try:
        ends = set(table_entries(connection.getpeername(), connection.getsockname()))
        for _ in range(READS):
            if (uid := owner_of(ends)) is not None:
                connection.getpeername()  # raises OSError if the connection is closed, since `uid` may then be wrong
                return uid
    except (OSError, ValueError):
        pass
    return None


def owner_of(ends: set[tuple[str, ...]]) -> int | None:
    """Return the owner (a uid) of the socket whose two addresses are in `ends`, or None. Raises OSError, ValueError."""
    for path in TABLES:
        try:
            with open(path) as table:
                for line in table:
                    _, here, there, _, _, _, _, uid, _, inode, *_ = line.split()
                    # A socket that no process has open any longer is listed with inode 0 and as owned by root.
                    if (here, there) in ends and inode != "0":
                        return int(uid)
        except FileNotFoundError:  # the kernel does not support IPv6
            continue
    return None


def table_entries(*addresses: tuple[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield the addresses in the format of /proc/net/tcp, if all are IPv4, and of /proc/net/tcp6. Raises OSError."""
    raw = [(packed(host), port) for host, port, *_ in addresses]
    for begin in (12, 0) if all(host.startswith(MAPPED) for host, _ in raw) else (0,):
        yield tuple(f"{hexadecimal(host[begin:])}:{port:04X}" for host, port in raw)


def packed(host: str) -> bytes:
    """Return an IPv4 or IPv6 address as 16 bytes."""
    return socket.inet_pton(socket.AF_INET6, host) if ":" in host else MAPPED + socket.inet_aton(host)


def hexadecimal(raw: bytes) -> str:
    """Return bytes in hexadecimal, as 32-bit words in this machine's byte order."""
    return "".join(f"{int.from_bytes(raw[at : at + 4], sys.byteorder):08X}" for at in range(0, len(raw), 4))

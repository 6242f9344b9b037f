"""Who is at the other end of a connection within this machine: the user whose process opened it.

Any user can connect to a port of the loopback interface, so whoever listens there and is not for everybody asks this
first. Loaded by path: standard library only.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator

TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
LOOKS = 3  # the kernel can skip a line of a table that changes while it is read
MAPPED = bytes(10) + b"\xff\xff"  # begins an IPv4 address in IPv6's tables


def is_own(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, or root's."""
    return uid_of(connection) in (os.getuid(), 0)


def uid_of(connection: socket.socket) -> int | None:
    """The user id of the process at the other end; None if it can't be known, such as when it has hung up."""
    try:
        ends = set(spelled(connection.getpeername(), connection.getsockname()))
        for _ in range(LOOKS):
            if (uid := owner_of(ends)) is not None:
                connection.getpeername()  # if the connection has been cut off, these ports may be another's by now
                return uid
    except (OSError, ValueError):
        pass
    return None


def owner_of(ends: set[tuple[str, ...]]) -> int | None:
    """The owner of the socket with these ends. Raises OSError, ValueError."""
    for path in TABLES:
        try:
            with open(path) as table:
                for line in table:
                    _, here, there, _, _, _, _, uid, _, inode, *_ = line.split()
                    # A socket that no process has open any more is listed with inode 0, and as root's.
                    if (here, there) in ends and inode != "0":
                        return int(uid)
        except FileNotFoundError:  # without IPv6
            continue
    return None


def spelled(*addresses: tuple[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield addresses as the kernel's tables have them: IPv4's in both. Raises OSError."""
    raw = [(packed(host), port) for host, port, *_ in addresses]
    for begin in (12, 0) if all(host.startswith(MAPPED) for host, _ in raw) else (0,):
        yield tuple(f"{words(host[begin:])}:{port:04X}" for host, port in raw)


def packed(host: str) -> bytes:
    """An address in 16 bytes."""
    return socket.inet_pton(socket.AF_INET6, host) if ":" in host else MAPPED + socket.inet_aton(host)


def words(raw: bytes) -> str:
    """Bytes in hexadecimal, by words of 32 bits in this machine's order."""
    return "".join(f"{int.from_bytes(raw[at : at + 4], sys.byteorder):08X}" for at in range(0, len(raw), 4))

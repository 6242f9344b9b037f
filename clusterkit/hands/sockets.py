"""Established TCP connections of a process, also of one in a network namespace of its own."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clusterkit.hands import procfs

ESTABLISHED = "01"


class Connection(NamedTuple):
    """Both ends as `host:port`."""

    local: str
    remote: str


def established(pid: int) -> list[Connection]:
    """The process's established TCP connections; empty where its descriptors can't be read."""
    own = procfs.links(pid)
    return sorted(made for inode, made in _connections(pid) if f"socket:[{inode}]" in own)


def _connections(pid: int) -> Iterator[tuple[str, Connection]]:
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == ESTABLISHED:
                yield fields[9], Connection(endpoint(fields[1]), endpoint(fields[2]))


def endpoint(text: str) -> str:
    """`127.0.0.1:8080` of the kernel's `0100007F:1F90`: 32-bit words, in this machine's order of bytes."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    host = ipaddress.ip_address(packed)
    if isinstance(host, ipaddress.IPv6Address):
        host = host.ipv4_mapped or host
    return f"{host}:{int(port, 16)}" if host.version == 4 else f"[{host}]:{int(port, 16)}"

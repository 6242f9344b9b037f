"""Lists the established TCP connections of a process, also of one in another network namespace."""

from __future__ import annotations

import ipaddress
import sys
from typing import NamedTuple

from clusterkit.system import procfs


class Connection(NamedTuple):
    """Both ends of a connection, as `host:port`."""

    local: str
    remote: str


def established(pid: int) -> list[Connection]:
    """Return the process's established TCP connections; empty if its descriptors are not readable."""
    own = procfs.links(pid)
    sockets = [f for f in procfs.tcp_sockets(pid, procfs.ESTABLISHED) if f"socket:[{f[9]}]" in own]
    return sorted(Connection(endpoint(fields[1]), endpoint(fields[2])) for fields in sockets)


def endpoint(text: str) -> str:
    """Convert the kernel's `0100007F:1F90` (32-bit words in this machine's byte order) to `127.0.0.1:8080`."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    host = ipaddress.ip_address(packed)
    if isinstance(host, ipaddress.IPv6Address):
        host = host.ipv4_mapped or host
    return f"{host}:{int(port, 16)}" if host.version == 4 else f"[{host}]:{int(port, 16)}"

"""Claims ports without a race, and checks which tasks listen on their ports."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import portpicker

from clusterkit.system import procfs
from clusterkit.words.errors import NoPorts
from clusterkit.words.model import Task

TRIES = 200
HOST = "127.0.0.1"


def claim() -> socket.socket:
    """Bind a free port on all addresses; only servers of this user that set SO_REUSEPORT can then share the port.

    Raises NoPorts, or OSError if no descriptor is free.

    SO_REUSEPORT is set after the bind: if two supervisors pick the same port, one fails to bind and picks another. If
    the option were set before the bind, both could bind the port without noticing.
    """
    for _ in range(TRIES):
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind(("", portpicker.pick_unused_port()))
        except (OSError, portpicker.NoFreePortFoundError):
            try:
                socket.socket().close()  # raises OSError if the reason is a lack of descriptors
            finally:
                holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        return holder
    raise NoPorts(f"No free TCP port was found in {TRIES} tries. Close programs that listen on many ports.")


def port_here(endpoint: str) -> int | None:
    """Return the port of an endpoint on this machine's loopback address; None for an endpoint on a virtual network."""
    host, _, port = endpoint.rpartition(":")
    return int(port) if host in (HOST, "localhost") and port.isdecimal() else None


def listening(endpoints: Mapping[Task, str], pids: Mapping[Task, int]) -> frozenset[Task]:
    """Return the tasks in `pids` that have a listener on their endpoint, here or in the task's network namespace."""
    here = procfs.listening_ports()

    def is_open(task: Task) -> bool:
        port = port_here(endpoints[task])
        return port in here or (port is None and port_of(endpoints[task]) in procfs.listening_ports(pids[task]))

    return frozenset(filter(is_open, endpoints.keys() & pids.keys()))


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])

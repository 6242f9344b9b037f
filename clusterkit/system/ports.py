"""Ports: where tasks listen; those of this machine are claimed without a race and held for the whole run."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

import portpicker

from clusterkit.system import procfs
from clusterkit.words.errors import NoPorts
from clusterkit.words.model import Task

TRIES = 200
HOST = "127.0.0.1"


class Ports:
    """One port a task, each held by a bound socket that does not listen."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._held: dict[Task, socket.socket] = {}
        try:
            for task in tasks:
                self._held[task] = claim()
        except BaseException:
            self.release()
            raise

    @property
    def endpoints(self) -> dict[Task, str]:
        """`host:port` of each task."""
        return {task: f"{HOST}:{held.getsockname()[1]}" for task, held in self._held.items()}

    def release(self) -> None:
        """Let go of every port."""
        for held in self._held.values():
            held.close()
        self._held.clear()


def claim() -> socket.socket:
    """Bind a free port on every address, so that only this user's SO_REUSEPORT servers can join it.

    The bind comes first and alone, SO_REUSEPORT after it: of two supervisors that were told of the same free port
    one fails here and takes another, where with the option set both would hold it and notice nothing.
    """
    for _ in range(TRIES):
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind(("", portpicker.pick_unused_port()))
        except (OSError, portpicker.NoFreePortFoundError):
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        return holder
    raise NoPorts(f"No free TCP port was found in {TRIES} tries. Close programs that listen on many ports.")


def port_here(endpoint: str) -> int | None:
    """The endpoint's port where it is one of this machine's; None where it is at an address of a virtual network."""
    host, _, port = endpoint.rpartition(":")
    return int(port) if host in (HOST, "localhost") and port.isdecimal() else None


def listening(endpoints: Mapping[Task, str], pids: Mapping[Task, int]) -> frozenset[Task]:
    """Those of the tasks that run, as `pids` tells, at whose endpoint something listens.

    A task of a virtual network is asked for its own network's ports, the others all together for this machine's.
    """
    here = procfs.listening_ports()
    found = set[Task]()
    for task in endpoints.keys() & pids.keys():
        port = port_here(endpoints[task])
        if port in here or (port is None and _port(endpoints[task]) in procfs.listening_ports(pids[task])):
            found.add(task)
    return frozenset(found)


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])

"""Ports: claimed without a race and held for the whole run."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import portpicker

from clusterkit.words.errors import NoPorts
from clusterkit.words.model import Task

TRIES = 200


class Ports:
    """One port a task, each held by a bound socket that does not listen."""

    def __init__(self, tasks: Iterable[Task], host: str = "127.0.0.1") -> None:
        self._held: dict[Task, socket.socket] = {}
        self.host = host
        try:
            for task in tasks:
                self._held[task] = claim()
        except BaseException:
            self.release()
            raise

    @property
    def endpoints(self) -> dict[Task, str]:
        """`host:port` of each task."""
        return {task: f"{self.host}:{port}" for task, port in self.numbers.items()}

    @property
    def numbers(self) -> dict[Task, int]:
        """The port of each task."""
        return {task: held.getsockname()[1] for task, held in self._held.items()}

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

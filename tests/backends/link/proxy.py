"""A network between an agent and its supervisor, over real sockets: it cuts, delays, and delivers in pieces."""

from __future__ import annotations

import random
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from clusterkit.system.barrier import exit_on_crash
from clusterkit.system.poller import Poller
from tests.backends.link.wires import LOOPBACK

LARGEST = 1 << 16
PATIENCE = 10.0  # seconds


class Proxy:
    """Forwards connections to an address, until it is told otherwise. Its own thread does the work."""

    def __init__(
        self, address: tuple[str, int], draw: random.Random, cuts: Iterable[int] = (), delay: float = 0.0
    ) -> None:
        """Cut all connections each time that so many bytes in all have arrived; `delay` is the longest, in seconds."""
        self._target, self._draw, self._delay = address, draw, delay
        self._cuts = deque(sorted(cuts))
        self._arrived = 0
        self._others: dict[socket.socket, socket.socket] = {}
        self._late = deque[tuple[float, socket.socket, bytes]]()
        self._is_dark = False
        self._socket = socket.create_server((LOOPBACK, 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._poller = Poller("proxy", exit_on_crash, self._turn)
        self._poller.watch(self._socket.fileno(), self._accept)
        self._poller.start()

    @property
    def cuts_left(self) -> int:
        """How many cuts have not taken place."""
        return len(self._cuts)

    def cut(self) -> None:
        """End the connections that there are."""
        self._poller.do(self._cut)

    def darken(self) -> None:
        """From now on let nothing through, without a word to either side; connections are accepted all the same."""
        self._poller.do(lambda: self._set_dark(True))

    def lighten(self) -> None:
        """Let everything through again. What was swallowed is missing, so connections from before are of no use."""
        self._poller.do(lambda: self._set_dark(False))

    def stop(self) -> None:
        """End it, with its connections."""
        self.cut()
        self._poller.stop()
        self._socket.close()

    def _set_dark(self, is_dark: bool) -> None:
        self._is_dark = is_dark

    def _accept(self, _: int) -> None:
        here, _address = self._socket.accept()
        try:
            there = socket.create_connection(self._target, PATIENCE)
        except OSError:
            here.close()
            return
        for one, other in ((here, there), (there, here)):
            one.settimeout(PATIENCE)
            self._others[one] = other
            self._poller.watch(one.fileno(), lambda _, one=one: self._read(one))  # type: ignore[misc]

    def _read(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(self._draw.randint(1, LARGEST))
        except OSError:
            data = b""
        if not data:
            self._drop(sock)  # in the dark, the other side does not learn of it
            return
        self._arrived += len(data)
        due = time.monotonic() + self._draw.uniform(0, self._delay)
        self._late.append((max(due, self._late[-1][0] if self._late else 0.0), self._others[sock], data))
        if self._cuts and self._arrived >= self._cuts[0]:
            self._cuts.popleft()
            self._forward_late(self._draw.randrange(len(self._late)))
            self._late.append((0.0, self._others[sock], data[: len(data) // 2]))
            self._forward_late(1)
            self._cut()

    def _turn(self) -> float | None:
        now = time.monotonic()
        self._forward_late(sum(due <= now for due, *_ in self._late))
        return max(0.0, self._late[0][0] - time.monotonic()) if self._late else None

    def _forward_late(self, number: int) -> None:
        for _ in range(number):
            _due, sock, data = self._late.popleft()
            if sock in self._others and not self._is_dark:
                with suppress(OSError):  # it has gone meanwhile
                    sock.sendall(data)

    def _cut(self) -> None:
        self._late.clear()
        for sock in list(self._others):
            self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        for one in (sock, None if self._is_dark else self._others.get(sock)):
            if one is not None and self._others.pop(one, None) is not None:
                self._poller.forget(one.fileno())
                one.close()


@contextmanager
def bad_network(
    address: tuple[str, int], draw: random.Random, cuts: Iterable[int] = (), delay: float = 0.0
) -> Iterator[Proxy]:
    """A proxy, stopped after the block."""
    proxy = Proxy(address, draw, cuts, delay)
    try:
        yield proxy
    finally:
        proxy.stop()

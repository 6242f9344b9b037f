"""What the tests of the connection share: both ends of it, what happened to them, and a bad network between them."""

from __future__ import annotations

import queue
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusterkit.backends.link.certificate import write_certificate
from clusterkit.backends.link.connection import Connection
from clusterkit.backends.link.dialer import Dialer
from clusterkit.backends.link.frames import JSON
from clusterkit.backends.link.listener import Listener
from clusterkit.words.events import Crashed
from tests.support import wait_until

LOOPBACK = "127.0.0.1"


@dataclass
class Records:
    """AgentEvents that writes everything down."""

    happened: list[tuple[str, str]] = field(default_factory=list)  # what, and the host or the reason
    messages: list[Mapping[str, JSON]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)

    def connected(self, connection: Connection, host: str) -> None:
        """Keep the connection."""
        self.connections.append(connection)
        self.happened.append(("connected", host))

    def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
        """Keep the message."""
        self.bodies.append(body)
        self.messages.append(message)  # last: who waits for it finds its body

    def cut(self, connection: Connection, why: str) -> None:
        """Keep the reason."""
        self.happened.append(("cut", why))

    def resumed(self, connection: Connection) -> None:
        """Write it down."""
        self.happened.append(("resumed", ""))

    def unreadable(self, connection: Connection, why: str) -> None:
        """Keep the reason."""
        self.happened.append(("unreadable", why))

    def lost(self, connection: Connection, why: str) -> None:
        """Keep the reason."""
        self.happened.append(("lost", why))

    @property
    def kinds(self) -> list[str]:
        """What happened, without reasons."""
        return [kind for kind, _ in self.happened]

    def wait_for(self, kind: str, times: int = 1, within: float = 20) -> str:
        """Wait until something has happened so many times; return the reason of the last."""

        def reasons() -> list[str]:
            return [why for happened, why in self.happened if happened == kind]

        wait_until(lambda: len(reasons()) >= times, within, lambda: f"{times} × {kind}, but {self.happened}")
        return reasons()[-1]

    def wait_for_messages(self, number: int, within: float = 60) -> None:
        """Wait until so many messages have arrived."""
        wait_until(lambda: len(self.messages) >= number, within, lambda: f"message {number}, but {len(self.messages)}")


@dataclass
class Ends:
    """A supervisor's listener, and the agents that the test starts."""

    directory: Path
    timeout: float
    supervisor: Records
    host: str
    crashed: queue.SimpleQueue[Crashed] = field(default_factory=queue.SimpleQueue)
    dialers: list[Dialer] = field(default_factory=list)
    agents: list[Records] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pem = self.directory / "certificate.pem"
        write_certificate(self.pem, "a-run")
        self.listener = Listener(self.pem, self.host, self.timeout, self.crashed.put, self.supervisor)

    @property
    def address(self) -> tuple[str, int]:
        """Where the listener listens."""
        return self.host, self.listener.port

    def agent(self, host: str = "n1", address: tuple[str, int] | None = None, pem: Path | None = None) -> Records:
        """Start an agent's end, and return its records."""
        self.agents.append(records := Records())
        where = address or self.address
        self.dialers.append(Dialer(pem or self.pem, where, host, self.timeout, self.crashed.put, records))
        return records

    def stop(self) -> None:
        """Stop both ends; no thread may have failed."""
        for dialer in self.dialers:
            dialer.stop()
        self.listener.stop()
        assert self.crashed.empty(), self.crashed.get().traceback


@contextmanager
def both_ends(
    directory: Path, timeout: float = 10.0, supervisor: Records | None = None, address: str = LOOPBACK
) -> Iterator[Ends]:
    """A listener, stopped after the block with the agents that were started in it."""
    ends = Ends(directory, timeout, supervisor or Records(), address)
    try:
        yield ends
    finally:
        ends.stop()


def stranger(address: tuple[str, int]) -> socket.socket:
    """A connection of someone who says nothing yet."""
    return socket.create_connection(address, 10)


def says(address: tuple[str, int], data: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """Connect, with TLS or without, say something and nothing more; return the answer."""
    answer = b""
    with suppress(OSError), ExitStack() as stack:  # the other side may end the connection at any moment
        sock = stack.enter_context(stranger(address))
        if context is not None:
            sock = stack.enter_context(context.wrap_socket(sock))
        sock.sendall(data)
        socket.socket.shutdown(sock, socket.SHUT_WR)  # TLS's own would take no answer any more
        while more := sock.recv(1 << 16):
            answer += more
    return answer

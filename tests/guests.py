"""Guests: processes in a virtual network's namespaces that do what a test tells them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import CHILDREN, wait_until

DEADLINE = 20.0  # seconds for an answer


@dataclass
class Guest:
    """A process that has joined namespaces, given by their descriptors, in their order."""

    namespaces: Sequence[int]
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        words = [sys.executable, "-S", str(CHILDREN / "guest.py"), ",".join(map(str, self.namespaces))]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=self.namespaces, text=True
        )
        self.does("import errno, os, socket, time")

    def begins(self, code: str) -> None:
        """Tell it Python code, whose answer comes later."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def answers(self) -> dict[str, Any]:
        """What has become of the code: its `result`, or an `error` with its `errno`."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], DEADLINE)[0], "the guest does not answer"
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def tries(self, code: str) -> dict[str, Any]:
        """Have it do something that may fail."""
        self.begins(code)
        return self.answers()

    def does(self, code: str) -> Any:
        """Have it do something; the code's `result`."""
        return self.result(self.tries(code))

    def result(self, answer: dict[str, Any] | None = None) -> Any:
        """The result of what it has begun."""
        told = self.answers() if answer is None else answer
        assert "error" not in told, told
        return told["result"]

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def connect(server: Guest, client: Guest, address: str, port: int = 2222) -> None:
    """Join two guests by a TCP connection, `c` at both, without delays of its own."""
    server.does(f"s = socket.create_server(('0.0.0.0', {port}))")
    client.begins(f"c = socket.create_connection(('{address}', {port}), 10)")
    server.does("c, _ = s.accept(); s.close(); c.settimeout(10)")
    client.result()
    for guest in (server, client):
        guest.does("c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)")


def round_trip(server: Guest, client: Guest, count: int = 16) -> float:
    """The lower quartile of round trips over the connection, in seconds: a busy machine adds to some of them."""
    server.begins(f"for _ in range({count}): c.sendall(c.recv(10))")
    times: list[float] = client.does(
        f"result = []\nfor _ in range({count}):\n"
        "    begun = time.perf_counter(); c.sendall(b'x'); c.recv(10); result.append(time.perf_counter() - begun)"
    )
    server.result()
    return sorted(times)[count // 4]


def await_round_trip(server: Guest, client: Guest, seconds: float, within: float) -> None:
    """Measure round trips until they take so long, give or take `within`: now and then a machine is too busy."""
    measured: list[float] = []

    def is_close() -> bool:
        measured.append(round_trip(server, client))
        return abs(measured[-1] - seconds) <= within

    wait_until(is_close, DEADLINE, lambda: f"a round trip of {seconds:g} s; it took {measured}")

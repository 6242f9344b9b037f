"""Clients that do not ask: the server waits for them for a while, and then has room for others."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from clusterkit.page import serve
from clusterkit.store.store import RunStore
from tests.strangers import STRANGER, connected, needs_root

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]
WITHIN = 50.0  # seconds
SOON = 0.1
REQUEST = b"GET / HTTP/1.1\r\nhost: another\r\n\r\n"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """That of a server."""
    server = serve.PageServer(RunStore(tmp_path))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server.port
    server.end()
    thread.join()


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("begun", [b"", REQUEST[:20]])
def test_a_client_that_does_not_finish_its_request_is_cut_off(
    port: int, count: int, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one, or another one on the same connection."""
    answered, complete = itertools.count(1), serve.Protocol.on_response_complete

    def on_response_complete(protocol: serve.Protocol) -> None:
        if next(answered) == count:  # only the time that begins now is short
            monkeypatch.setattr(serve, "BEGIN_WITHIN", SOON)
        complete(protocol)

    monkeypatch.setattr(serve, "BEGIN_WITHIN", WITHIN if count else SOON)
    monkeypatch.setattr(serve.Protocol, "on_response_complete", on_response_complete)
    with socket.create_connection((serve.HOST, port), WITHIN) as client, client.makefile("rb") as answers:
        for _ in range(count):
            client.sendall(REQUEST)
            assert answers.readline().startswith(b"HTTP/1.1 421 ")
            length = next(int(line.split()[1]) for line in answers if line.startswith(b"content-length"))
            while answers.readline() != b"\r\n":
                pass
            answers.read(length)
        with suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(begun)
            assert answers.read() == b""


@needs_root
def test_idle_connections_of_another_user_lock_nobody_out(port: int) -> None:
    """Neither the owner nor a third user: a monitoring system, for example."""
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connected((serve.HOST, port)))
        third = stack.enter_context(connected((serve.HOST, port), uid=STRANGER + 1))
        for client in (stack.enter_context(socket.create_connection((serve.HOST, port), WITHIN)), third):
            client.sendall(REQUEST)
            assert client.makefile("rb").readline().startswith(b"HTTP/1.1 421 ")

"""Whose process is at the other end of a TCP connection."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.task import peers
from tests.strangers import STRANGER, connected, needs_root

pytestmark = pytest.mark.process


@pytest.fixture(params=["127.0.0.1", "::1", "::"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket that listens, on IPv4, IPv6, or both."""
    host = request.param
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as made:
        yield made


def reached(listener: socket.socket) -> list[tuple[str, socket.AddressFamily]]:
    """The addresses of the listener, each with the family of the client's socket."""
    host = listener.getsockname()[0]
    four = [("127.0.0.1", socket.AF_INET), ("::ffff:127.0.0.1", socket.AF_INET6)]
    return [*(four if host != "::1" else []), *([("::1", socket.AF_INET6)] if ":" in host else [])]


def test_a_connection_of_this_user_is_known(listener: socket.socket) -> None:
    """Over IPv4 and IPv6, and with an IPv6 socket to an IPv4 address, as Java's are."""
    for host, family in reached(listener):
        with socket.socket(family) as client:
            client.connect((host, listener.getsockname()[1]))
            accepted, _ = listener.accept()
            with accepted:
                assert peers.uid_of(accepted) == os.getuid()
                assert peers.is_own(accepted)
                client.shutdown(socket.SHUT_WR)  # it still reads
                assert peers.is_own(accepted)


@needs_root
def test_a_connection_of_another_user_is_known(listener: socket.socket) -> None:
    """At each address."""
    for host, family in reached(listener):
        with connected((host, listener.getsockname()[1]), family):
            accepted, _ = listener.accept()
            with accepted:
                assert peers.uid_of(accepted) == STRANGER
                assert not peers.is_own(accepted)


@pytest.mark.parametrize("cut", [False, True])
def test_a_closed_connection_has_no_owner(listener: socket.socket, cut: bool) -> None:
    """The kernel lists such a socket as root's, though its data can still be read."""
    for host, family in reached(listener):
        client = socket.socket(family)
        client.connect((host, listener.getsockname()[1]))
        client.sendall(b"do something")
        if cut:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        accepted, _ = listener.accept()
        with accepted:
            assert peers.uid_of(accepted) is None
            assert not peers.is_own(accepted)


@given(text=st.text(max_size=200), host=st.text(max_size=12))
def test_an_invalid_table_has_no_owner(tmp_path_factory: pytest.TempPathFactory, text: str, host: str) -> None:
    """Then nobody is admitted."""
    table = tmp_path_factory.getbasetemp() / "table"
    table.write_text(text, errors="surrogateescape")

    class Odd(socket.socket):
        def getpeername(self) -> tuple[str, int]:
            return host, 1

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", 2

    with pytest.MonkeyPatch.context() as patch, Odd() as odd:
        patch.setattr(peers, "TABLES", (str(table), str(Path(table, "missing"))))
        assert peers.uid_of(odd) is None

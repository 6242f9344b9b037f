"""The supervisor's name: it is resolved anew each time, and an agent waits until it has an address that answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.link.certificate import write_certificate
from clusterkit.backends.link.connection import SessionConnection
from tests.backends.link.wires import LOOPBACK, Ends, both_ends
from tests.support import Up

pytestmark = pytest.mark.process


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """A listener and its agents."""
    with both_ends(tmp_path) as made:
        yield made


@dataclass
class NameServer:
    """Answers for the name `supervisor` by its entries in turn, the last one again and again; addresses are plain."""

    entries: list[str | OSError]
    asked: int = 0
    opened: threading.Event = field(default_factory=threading.Event)

    def resolve(self, host: str, port: int, type: int = 0, flags: int = 0) -> list[Any]:
        """As getaddrinfo does."""
        if host != "supervisor":
            return list(PLAIN(host, port, type=type, flags=flags))
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        assert self.opened.wait(60)
        entry = self.entries[min(self.asked, len(self.entries) - 1)]
        self.asked += 1
        if isinstance(entry, OSError):
            raise entry
        return list(PLAIN(entry, port, type=type))


PLAIN: Any = socket.getaddrinfo
UNKNOWN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def name_server(monkeypatch: pytest.MonkeyPatch, *entries: str | OSError, slow: bool = False) -> NameServer:
    """In place of the system's; a slow one answers when it is `opened`."""
    server = NameServer([*entries])
    if not slow:
        server.opened.set()
    monkeypatch.setattr(socket, "getaddrinfo", server.resolve)
    return server


def test_an_agent_resolves_the_name_of_its_supervisor_anew_each_time(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not be known yet, or still have the address of an earlier supervisor, which refuses."""
    server = name_server(monkeypatch, UNKNOWN, UNKNOWN, "127.0.0.9", LOOPBACK)
    agent = ends.agent(address=("supervisor", ends.listener.port))
    agent.wait_for("connected")
    assert (server.asked, agent.kinds) == (4, ["connected"])


def test_an_agent_that_loses_its_supervisor_looks_for_it_under_its_name(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the address that it had."""
    server = name_server(monkeypatch, LOOPBACK)
    agent = ends.agent(address=("supervisor", ends.listener.port))
    agent.wait_for("connected")
    ends.supervisor.wait_for("connected")
    [connection] = ends.supervisor.connections
    assert isinstance(connection, SessionConnection)
    connection._do(lambda: connection.cut("a test"))
    agent.wait_for("resumed")
    assert server.asked == 2


@pytest.mark.parametrize(
    ("slow", "why"),
    [
        (False, "its name does not resolve (Temporary failure in name resolution)"),
        (True, "its name is not resolved yet"),
    ],
)
def test_an_agent_whose_supervisor_has_no_address_gives_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool, why: str
) -> None:
    """Also where the name server does not answer at all."""
    server = name_server(monkeypatch, UNKNOWN, slow=slow)
    with both_ends(tmp_path, 0.5) as ends:
        agent = ends.agent(address=("supervisor", 7077))
        assert agent.wait_for("lost") == f"The supervisor at supervisor:7077 was not reached for 0.5 s: {why}."
        server.opened.set()


@pytest.mark.parametrize(
    ("connect", "code", "said"),
    [
        ("nowhere.invalid:7077", 1, "The supervisor at nowhere.invalid:7077 was not reached for 0.5 s: its name"),
        ("a..b:7077", 2, "'a..b' is not a host name."),
        (f"{'a' * 64}:7077", 2, f"'{'a' * 64}' is not a host name."),
        ("n1\udcff:7077", 2, "is not a host name."),
    ],
)
def test_a_name_without_an_address_is_waited_for_and_one_that_can_have_none_is_not(
    clusterkit: Callable[..., Up], tmp_path: Path, connect: str, code: int, said: str
) -> None:
    """The first may get one when the supervisor starts."""
    key = tmp_path / "agents.pem"
    write_certificate(key, "a-run")
    agent = clusterkit("agent", "--connect", connect, "--key", key, "--timeout", "500ms")
    assert agent.wait(30) == code, agent.output
    assert said in agent.output

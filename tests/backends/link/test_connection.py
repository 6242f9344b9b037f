"""The connection over real sockets: messages in order, once, both ways; sessions begin, close and get lost."""

from __future__ import annotations

import queue
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.link import dialer
from clusterkit.backends.link.certificate import Tls, write_certificate
from clusterkit.backends.link.connection import Connection, SessionConnection
from clusterkit.backends.link.frames import JSON
from clusterkit.backends.link.link import Link, LinkOwner
from clusterkit.backends.link.listener import Listener
from clusterkit.backends.link.stream import FileRange
from clusterkit.system.poller import Poller
from clusterkit.words.errors import BadJob
from tests.backends.link.wires import LOOPBACK, Ends, Records, both_ends
from tests.support import no_descriptors, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """A listener and its agents."""
    with both_ends(tmp_path) as made:
        yield made


def test_an_address_at_which_nobody_can_listen_is_a_problem_of_the_job(ends: Ends) -> None:
    """Another process may have the port; and an address may be another host's."""
    taken, elsewhere = f"{ends.host}:{ends.listener.port}", "192.0.2.1:7077"
    for address, why in ((taken, "Address already in use"), (elsewhere, "Cannot assign requested address")):
        with pytest.raises(BadJob) as error:
            Listener(ends.pem, address, 1.0, ends.crashed.put, ends.supervisor)
        assert str(error.value) == (
            f"The supervisor can't listen at {address}: {why}. "
            "Choose an address of this host, and a free port, with --listen."
        )


def test_an_agent_tries_every_address_of_its_supervisor(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may have an IPv6 address first, and the supervisor listen at the other alone."""
    port = ends.listener.port

    def resolved(*_: Any, **__: Any) -> list[Any]:
        addresses = (socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, (LOOPBACK, port))
        return [(family, socket.SOCK_STREAM, 0, "", where) for family, where in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    agent = ends.agent(address=("supervisor", port))
    agent.wait_for("connected")
    assert ends.dialers[0].address == (LOOPBACK, port)


def test_messages_arrive_in_order_on_both_sides(ends: Ends) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    assert ends.supervisor.wait_for("connected") == "n1"
    for number in range(1000):
        agent.connections[0].send({"number": number}, b"x" * number)
        ends.supervisor.connections[0].send({"number": -number, "text": ["\n", "\udc80", {}, None, 0.5]})
    agent.wait_for_messages(1000)
    ends.supervisor.wait_for_messages(1000)
    assert [message["number"] for message in ends.supervisor.messages] == list(range(1000))
    assert [len(body) for body in ends.supervisor.bodies] == list(range(1000))
    assert [message["number"] for message in agent.messages] == [-number for number in range(1000)]
    assert agent.messages[0]["text"] == ["\n", "\udc80", {}, None, 0.5]


def test_a_part_of_a_file_is_read_when_it_is_sent(ends: Ends, tmp_path: Path) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    (tmp_path / "spool").write_bytes(b"0123456789")
    agent.connections[0].send({}, FileRange(tmp_path / "spool", 3, 4))
    ends.supervisor.wait_for_messages(1)
    assert ends.supervisor.bodies == [b"3456"]


def test_an_agent_that_closes_is_lost_after_its_last_message(ends: Ends) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    agent.connections[0].send({"last": True})
    agent.connections[0].close("The agent was asked to end.")
    assert agent.wait_for("lost") == "The agent was asked to end."
    assert ends.supervisor.wait_for("lost") == "The agent was asked to end."
    assert ends.supervisor.messages == [{"last": True}]


def test_an_agent_that_the_supervisor_closes_ends(ends: Ends) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    ends.supervisor.wait_for("connected")
    ends.supervisor.connections[0].send({"last": True})
    ends.supervisor.connections[0].close("The run has ended.")
    assert agent.wait_for("lost") == "The run has ended."
    assert ends.supervisor.wait_for("lost") == "The run has ended."
    assert agent.messages == [{"last": True}]


def test_an_agent_with_another_runs_key_gives_up_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.pem"
    write_certificate(other, "another-run")
    with both_ends(tmp_path, 60) as ends, lease_ends_after_an_attempt(monkeypatch):
        agent = ends.agent(pem=other)
        assert agent.wait_for("lost") == (
            f"The supervisor at 127.0.0.1:{ends.listener.port} was not reached for 60 s: "
            "its certificate is not this run's."
        )
        assert agent.kinds == ["lost"]
        assert ends.supervisor.happened == []


def test_an_agent_without_a_supervisor_gives_up_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        both_ends(tmp_path, 60) as ends,
        socket.socket() as bound,
        lease_ends_after_an_attempt(monkeypatch),
    ):
        bound.bind(("127.0.0.1", 0))
        agent = ends.agent(address=bound.getsockname())
        assert agent.wait_for("lost").endswith(" was not reached for 60 s: connection refused.")


@contextmanager
def lease_ends_after_an_attempt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dialer's clock goes on by two minutes when an attempt to connect has failed.

    So its lease is over then, however slow the machine is: not before the attempt has met what is wrong.
    """
    real_now, real_ended = dialer._now, dialer.Dialer.ended
    passed = 0.0

    def ended(self: dialer.Dialer, link: Link, why: str) -> None:
        nonlocal passed
        real_ended(self, link, why)
        passed = 120.0

    with monkeypatch.context() as patches:
        patches.setattr(dialer, "_now", lambda: real_now() + passed)
        patches.setattr(dialer.Dialer, "ended", ended)
        yield


def test_an_agent_asks_again_where_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has its own deadline, long before TCP's."""
    monkeypatch.setattr(dialer, "CONNECT_WITHIN", 0.2)
    attempts = counted_links(monkeypatch)
    with both_ends(tmp_path, 30.0) as ends, ExitStack() as taken:
        full = taken.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # the kernel ignores further ones
            waiting = taken.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        ends.agent(address=full.getsockname())
        wait_until(lambda: attempts.qsize() >= 3, 20, "three attempts")


def counted_links(monkeypatch: pytest.MonkeyPatch) -> queue.SimpleQueue[None]:
    """A queue with an entry for each link that a dialer makes."""
    attempts = queue.SimpleQueue[None]()

    class Counted(Link):
        def __init__(
            self, poller: Poller, sock: socket.socket, tls: Tls, user: LinkOwner, clock: Callable[[], float]
        ) -> None:
            attempts.put(None)
            super().__init__(poller, sock, tls, user, clock)

    monkeypatch.setattr(dialer, "Link", Counted)
    return attempts


@pytest.mark.parametrize(
    ("name", "why"), [("nowhere", "No such file or directory"), ("spool", "it has less than 12 bytes")]
)
def test_a_file_that_can_not_be_read_is_left_out(ends: Ends, tmp_path: Path, name: str, why: str) -> None:
    """And the agent is told; everything else arrives, before it and after it, also in another connection."""
    agent = ends.agent()
    agent.wait_for("connected")
    (tmp_path / "spool").write_bytes(b"0123456789")
    connection = agent.connections[0]
    connection.send({"number": 1})
    connection.send({"number": 2}, FileRange(tmp_path / name, 8, 4))
    connection.send({"number": 3}, FileRange(tmp_path / "spool", 8, 2))
    assert agent.wait_for("unreadable") == f"{tmp_path / name} can't be read: {why}"
    ends.supervisor.wait_for_messages(2)
    assert ends.supervisor.messages == [{"number": 1}, {"number": 3}]
    assert ends.supervisor.bodies == [b"", b"89"]
    peer = ends.supervisor.connections[0]
    assert isinstance(peer, SessionConnection)
    peer._do(lambda: peer.cut("a test"))
    agent.wait_for("resumed")
    connection.send({"number": 4})
    ends.supervisor.wait_for_messages(3)
    assert (agent.kinds, ends.supervisor.messages[-1]) == (
        ["connected", "unreadable", "cut", "resumed"], {"number": 4},
    )  # fmt: skip


def test_a_file_waits_for_descriptors(ends: Ends, tmp_path: Path) -> None:
    agent = ends.agent()
    agent.wait_for("connected")
    (tmp_path / "spool").write_bytes(b"0123456789")
    with no_descriptors():
        agent.connections[0].send({}, FileRange(tmp_path / "spool", 3, 4))
        assert agent.wait_for("cut") == "too many open files"
    agent.wait_for("resumed")
    ends.supervisor.wait_for_messages(1)
    assert ends.supervisor.bodies == [b"3456"]


def test_an_event_that_fails_is_posted_as_a_crash(tmp_path: Path) -> None:
    class Failing(Records):
        def message(self, connection: Connection, message: Mapping[str, JSON], body: bytes) -> None:
            raise LookupError("a defect")

    with both_ends(tmp_path, supervisor=Failing()) as ends:
        agent = ends.agent()
        agent.wait_for("connected")
        agent.connections[0].send({})
        crashed = ends.crashed.get(timeout=10)
        assert (crashed.where, crashed.error) == ("the thread 'listener'", "LookupError: a defect")


def test_what_is_sent_after_the_stop_is_ignored(tmp_path: Path) -> None:
    with both_ends(tmp_path) as ends:
        agent = ends.agent()
        agent.wait_for("connected")
        ends.supervisor.wait_for("connected")
    for connection in (agent.connections[0], ends.supervisor.connections[0]):
        connection.send({"too": "late"})
        connection.close("Too late.")
    assert "lost" not in agent.kinds + ends.supervisor.kinds


@pytest.mark.slow
def test_two_hundred_agents_connect_at_once(tmp_path: Path) -> None:
    """More than there may be strangers at a time."""
    with both_ends(tmp_path, 30.0) as ends:
        agents = [ends.agent(f"n{number}") for number in range(200)]
        ends.supervisor.wait_for("connected", 200, within=30)
        for agent in agents:
            agent.wait_for("connected")
        assert sorted(why for _, why in ends.supervisor.happened) == sorted(f"n{number}" for number in range(200))


def test_ipv6_addresses_are_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with both_ends(tmp_path, address="::1") as ends:
        ends.agent().wait_for("connected")
    (tmp_path / "other").mkdir()
    with both_ends(tmp_path / "other", 60, address="[::1]:0") as ends, lease_ends_after_an_attempt(monkeypatch):
        lost = ends.agent(address=("::1", 9)).wait_for("lost")
        assert lost == "The supervisor at [::1]:9 was not reached for 60 s: connection refused."


@pytest.mark.parametrize("dual", [True, False])
def test_who_listens_everywhere_is_found_by_either_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dual: bool
) -> None:
    """By IPv4 alone where the system has no other."""
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: dual)
    with both_ends(tmp_path, address="::") as ends:
        ends.agent("n1", (LOOPBACK, ends.listener.port)).wait_for("connected")
        if dual:
            ends.agent("n2", ("::1", ends.listener.port)).wait_for("connected")

"""Strangers at the supervisor's port: without the run's key nothing gets in, and with it nothing but frames."""

from __future__ import annotations

import datetime
import gc
import os
import random
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit import __version__
from clusterkit.backends.link import listener
from clusterkit.backends.link.certificate import (
    Tls,
    Untrusted,
    make_certificate,
    pinned,
    tls_context,
)
from clusterkit.backends.link.frames import PROTOCOL, AgentRefused, BadFrame, FrameParser, Hello, parse_hello
from clusterkit.backends.link.session import AgentSession, SupervisorSession
from tests.backends.link.test_frames import hostile
from tests.backends.link.wires import Ends, both_ends, says, stranger
from tests.support import no_descriptors, wait_until

pytestmark = pytest.mark.process

SEED = 8
GROWTH = 16 << 20  # bytes
HELLO = Hello("n2", "0" * 32, False, 1, 0, 1.0)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """A listener with an agent, which has to be there in the end."""
    with both_ends(tmp_path, 30.0) as made:
        agent = made.agent()
        agent.wait_for("connected")
        yield made
        agent.connections[0].send({"still": "here"})
        made.supervisor.wait_for_messages(1)
        assert agent.kinds == ["connected"]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The certificate of another run."""
    path = tmp_path / "other.pem"
    path.write_bytes(make_certificate("another-run", datetime.datetime.now(datetime.UTC)))
    return path


def naked() -> ssl.SSLContext:
    """TLS without a certificate, which trusts everyone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def trusting(pem: Path) -> ssl.SSLContext:
    """TLS with a certificate, which trusts everyone."""
    context = naked()
    context.load_cert_chain(pem)
    return context


def resident() -> int:
    """The memory of this process, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def resets(address: tuple[str, int]) -> None:
    """Connect, and end the connection as a port scanner does."""
    with stranger(address) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def knock(context: ssl.SSLContext, certificate: bytes, data: bytes) -> None:
    """Say something to a supervisor's TLS without a socket; it has to refuse, or to wait for more of the handshake."""
    tls = Tls(context, certificate, is_server=True)
    with suppress(Untrusted):
        assert tls.receive(data) == b""
    assert not tls.is_open


def speak(data: bytes) -> None:
    """Say something to a session of each side, or instead of its greeting; it has to be frames or an error."""
    supervisor, agent = SupervisorSession(30.0, 0.0), AgentSession("0" * 32, "n1", 30.0, 0.0)
    supervisor.welcome(HELLO, 0.0)
    sides = (lambda frame: supervisor.receive(frame, 1.0), lambda frame: agent.receive(frame, 1.0))
    for receive in (parse_hello, agent.welcome, *sides):
        with suppress(BadFrame, AgentRefused):
            for frame in FrameParser().feed(data):
                receive(frame)


@pytest.mark.slow
def test_a_hundred_thousand_hostile_inputs_change_nothing(ends: Ends, other: Path) -> None:
    """Over real sockets as many as there is time for, the others at the same code without one."""
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    within, certificate = tls_context(ends.pem, is_server=True), pinned(ends.pem)
    tries: dict[Callable[[], object], int] = {
        lambda: says(ends.address, draw.randbytes(draw.randrange(1, 300))): 2000,
        lambda: resets(ends.address): 500,
        lambda: says(ends.address, b"", naked()): 200,
        lambda: says(ends.address, HELLO.encode(), trusting(other)): 200,
        lambda: says(ends.address, hostile(draw), tls_context(ends.pem, is_server=False)): 600,
        lambda: knock(within, certificate, b"\x16\x03\x01" + draw.randbytes(draw.randrange(200))): 31_500,
        lambda: speak(hostile(draw)): 65_000,
    }
    assert sum(tries.values()) == 100_000
    for attempt, times in tries.items():
        for _ in range(times // 10):
            attempt()
    before = resident()
    for attempt, times in tries.items():
        for _ in range(times - times // 10):
            attempt()
    wait_until(lambda: ends.listener.refused == 3500, 10, lambda: f"3500 refused, but {ends.listener.refused}")
    assert resident() - before < GROWTH


def test_silent_strangers_keep_nobody_out(ends: Ends) -> None:
    silent = [stranger(ends.address) for _ in range(3 * listener.MOST_UNWELCOMED)]
    ends.agent("n2").wait_for("connected")
    wait_until(lambda: ends.listener.refused >= 2 * listener.MOST_UNWELCOMED, 10, "the oldest are gone")
    for sock in silent:
        sock.close()


def test_a_stranger_has_a_deadline(ends: Ends) -> None:
    strangers = ends.listener._unwelcomed

    def let_time_pass() -> None:
        strangers.update({link: until - listener.WELCOME_WITHIN for link, until in strangers.items()})
        ends.listener._check_by(0.0)

    with stranger(ends.address) as sock:
        wait_until(lambda: strangers and ends.listener._check_at <= max(strangers.values()), 10, "the deadline")
        ends.listener._poller.do(let_time_pass)
        assert sock.recv(1) == b""
    with stranger(ends.address) as sock, tls_context(ends.pem, is_server=False).wrap_socket(sock) as talk:
        wait_until(lambda: [link for link in list(strangers) if link._tls.is_open], 10, "the end of the handshake")
        ends.listener._poller.do(let_time_pass)
        assert talk.recv(1) == b""
    wait_until(lambda: ends.listener.refused == 2, 10, "the refusals")


def test_a_listener_without_descriptors_takes_them_in_later(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "ACCEPT_PAUSE", 0.1)
    with socket.socket() as sock:
        with no_descriptors():
            sock.connect(ends.address)
            ends.supervisor.connections[0].send({"seen": "by the thread that can't accept"})
            wait_until(lambda: ends.agents[0].messages, 10, "the message")
        sock.sendall(b"garbage")
        wait_until(lambda: ends.listener.refused == 1, 10, "the refusal")


def test_an_agent_of_another_protocol_is_told_both_versions(ends: Ends) -> None:
    hello = replace(HELLO, protocol=PROTOCOL + 1, version="9.9")
    answer = says(ends.address, hello.encode(), tls_context(ends.pem, is_server=False))
    (refusal,) = FrameParser().feed(answer)
    assert refusal.text("why") == (
        f"The agent on n2 is clusterkit 9.9 (protocol {PROTOCOL + 1}), the supervisor is clusterkit {__version__} "
        f"(protocol {PROTOCOL}): install the same version on both."
    )
    wait_until(lambda: ends.listener.refused == 1, 10, "the refusal")


def test_an_agent_of_an_earlier_supervisor_is_refused(ends: Ends) -> None:
    answer = says(ends.address, replace(HELLO, welcomed=True).encode(), tls_context(ends.pem, is_server=False))
    (refusal,) = FrameParser().feed(answer)
    why = "This supervisor does not know the agent on n2: the agent belongs to an earlier supervisor."
    assert refusal.text("why") == why


def test_a_hello_that_is_repeated_is_no_second_agent(ends: Ends) -> None:
    """Where the answer to the first one was lost."""
    context = tls_context(ends.pem, is_server=False)
    with context.wrap_socket(stranger(ends.address)) as first:
        first.sendall(HELLO.encode())
        assert b'"welcome"' in first.recv(1000)
        with context.wrap_socket(stranger(ends.address)) as second:
            second.sendall(replace(HELLO, attempt=2).encode())
            assert b'"welcome"' in second.recv(1000)
            assert first.recv(1000) == b""
    assert [why for kind, why in ends.supervisor.happened if kind == "connected"] == ["n1", "n2"]


def test_garbage_from_one_with_the_key_cuts_that_connection(ends: Ends) -> None:
    with tls_context(ends.pem, is_server=False).wrap_socket(stranger(ends.address)) as talk:
        talk.sendall(HELLO.encode())
        assert b'"welcome"' in talk.recv(1000)
        talk.sendall(b'{"size":0,"ack":0,"kind":"message","seq":2,"message":{}}\n')
        assert ends.supervisor.wait_for("cut") == "message 2 after message 0"
        assert talk.recv(1000) == b""

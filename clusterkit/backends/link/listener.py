"""The listener: the supervisor's side of the connections. It accepts agents, and refuses all other clients."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from clusterkit.backends.link.address import family_of
from clusterkit.backends.link.certificate import Tls, pinned, tls_context
from clusterkit.backends.link.connection import AgentEvents, SessionConnection
from clusterkit.backends.link.frames import AgentRefused, Frame, Hello, parse_hello, refusal
from clusterkit.backends.link.link import Link, LinkOwner
from clusterkit.backends.link.session import SupervisorSession
from clusterkit.system.poller import READABLE, Poller
from clusterkit.text.endpoints import split
from clusterkit.words.errors import BadJob
from clusterkit.words.events import Crashed

WELCOME_WITHIN = 10.0  # seconds; the time limit for an agent's hello after its connection is accepted
MOST_UNWELCOMED = 64  # the maximum number of connections without a welcome; then the one silent longest is closed
ACCEPT_PAUSE = 0.5  # seconds; how long no connections are accepted when no descriptor is free
BACKLOG = 1024
EVERYWHERE = "::"  # all addresses of this host, IPv4 included


class ConnectedAgent(NamedTuple):
    """An agent that has been welcomed."""

    peer: SessionConnection
    session: SupervisorSession


class Listener(LinkOwner):
    """The supervisor's connections to its agents."""

    def __init__(
        self, pem: Path, address: str, timeout: float, post: Callable[[Crashed], None], agents: AgentEvents
    ) -> None:
        """Listen at an address of this host, `host` or `host:port`. Raises CertificateError, BadJob."""
        self._context, self._certificate = tls_context(pem, is_server=True), pinned(pem)
        self._timeout, self._events = timeout, agents
        self._socket = _listening(address)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited by the connections
        self.port: int = self._socket.getsockname()[1]
        self.refused = 0  # the number of connections that lacked the key, sent no hello, or were refused
        self._agents: dict[str, ConnectedAgent] = {}
        self._unwelcomed: dict[Link, float] = {}  # deadlines of connections without a welcome
        self._accepts_at = math.inf
        self._check_at = math.inf
        self._poller = Poller("listener", post, self._turn)
        self._poller.watch(self._socket.fileno(), self._accept)
        self._poller.start()

    def stop(self) -> None:
        """End all connections at once, without a message to the agents or any further event."""
        self._poller.do(self._drop)
        self._poller.stop()
        self._socket.close()

    def received(self, link: Link, frame: Frame) -> None:
        try:
            hello = parse_hello(frame)
            agent = self._agents.get(hello.session) or self._new(hello)
            if agent.peer.end_reason is not None:
                raise AgentRefused(f"The supervisor has given up the agent on {hello.host}. {agent.peer.end_reason}")
        except AgentRefused as error:
            self._forget(link)
            link.close(refusal(str(error)))
            return
        greeting = agent.session.welcome(hello, time.monotonic())
        del self._unwelcomed[link]
        self._agents[hello.session] = agent
        self._check_by(agent.session.silent_at)
        agent.peer.begin(link, greeting)

    def ended(self, link: Link, why: str) -> None:
        self._forget(link)

    def _new(self, hello: Hello) -> ConnectedAgent:
        if hello.welcomed:
            raise AgentRefused(
                f"This supervisor does not know the agent on {hello.host}: the agent belongs to an earlier supervisor."
            )
        session = SupervisorSession(self._timeout, time.monotonic())
        peer = SessionConnection(session, hello.host, self._events, self._poller.do, time.monotonic)
        peer.waits_when_closed = False
        return ConnectedAgent(peer, session)

    def _forget(self, link: Link) -> None:
        del self._unwelcomed[link]
        self.refused += 1

    def _accept(self, _: int) -> None:
        """Accept one connection per turn of the poller, so that established connections are served first."""
        try:
            sock, _address = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # for example, no descriptor is free; without a pause, accepting would fail again and again
            self._poller.rearm(self._socket.fileno(), 0)
            self._accepts_at = time.monotonic() + ACCEPT_PAUSE
            self._check_by(self._accepts_at)
            return
        sock.setblocking(False)
        if len(self._unwelcomed) >= MOST_UNWELCOMED:
            min(self._unwelcomed, key=lambda link: link.heard_at).fail("too many connections")
        tls = Tls(self._context, self._certificate, is_server=True)
        until = time.monotonic() + WELCOME_WITHIN
        self._unwelcomed[Link(self._poller, sock, tls, self, time.monotonic)] = until
        self._check_by(until)

    def _check_by(self, moment: float) -> None:
        self._check_at = min(self._check_at, moment)

    def _turn(self) -> float | None:
        if (now := time.monotonic()) >= self._check_at:
            self._check_deadlines(now)
        return None if self._check_at == math.inf else max(0.0, self._check_at - time.monotonic())

    def _check_deadlines(self, now: float) -> None:
        """Act on expired deadlines, and store the earliest remaining deadline. Deadlines are only ever postponed."""
        if now >= self._accepts_at:
            self._accepts_at = math.inf
            self._poller.rearm(self._socket.fileno(), READABLE)
        for link in [link for link, until in self._unwelcomed.items() if until <= now]:
            link.fail("no hello in time")
        present = [agent for agent in self._agents.values() if agent.peer.end_reason is None]
        for peer, session in present:
            if session.lost_at <= now:
                peer.end(f"Nothing was received from {peer.host} for {now - session.heard_at:.1f} s.")
            elif session.silent_at <= now:  # too long without data: TCP may take minutes to notice a cut
                peer.cut(f"nothing was received for {now - session.heard_at:.1f} s")
        alive = [(peer, session) for peer, session in present if peer.end_reason is None]
        deadlines = (session.silent_at if peer.is_linked else session.lost_at for peer, session in alive)
        self._check_at = min(self._accepts_at, *self._unwelcomed.values(), *deadlines, math.inf)

    def _drop(self) -> None:
        for link in list(self._unwelcomed):
            link.close()
        for agent in self._agents.values():
            agent.peer.drop()


def _listening(address: str) -> socket.socket:
    host, port = split(address)
    both = host == EVERYWHERE and socket.has_dualstack_ipv6()
    host = "0.0.0.0" if host == EVERYWHERE and not both else host
    try:
        return socket.create_server((host, port), family=family_of(host), backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]  # Python appends the address
        instead = "Choose an address of this host, and a free port, with --listen."
        raise BadJob([f"The supervisor can't listen at {address}: {why}. {instead}"]) from None

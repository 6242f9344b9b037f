"""The listener: the supervisor's side of the connections. It accepts agents, and refuses all other clients."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from clusterkit.backends.link.address import family_of
from clusterkit.backends.link.certificate import Tls, pinned, server_context
from clusterkit.backends.link.connection import AgentEvents, SessionConnection
from clusterkit.backends.link.frames import AgentRefused, Frame, Hello, parse_hello, refusal
from clusterkit.backends.link.link import Link
from clusterkit.backends.link.session import SupervisorSession
from clusterkit.system.poller import READABLE, Poller
from clusterkit.text.endpoints import split
from clusterkit.words.errors import BadJob
from clusterkit.words.events import Crashed

WELCOME_WITHIN = 10.0  # seconds from accepting a connection until the agent's hello
MOST_STRANGERS = 64  # connections without a welcome; if there are more, the longest silent one is closed
DEAF = 0.5  # seconds; the pause in accepting connections when no descriptor is free
BACKLOG = 1024
EVERYWHERE = "::"  # all addresses of this host, IPv4 included


class ConnectedAgent(NamedTuple):
    """An agent that has been welcomed."""

    peer: SessionConnection
    session: SupervisorSession


class Listener:
    """The supervisor's connections to its agents."""

    def __init__(
        self, pem: Path, address: str, timeout: float, post: Callable[[Crashed], None], agents: AgentEvents
    ) -> None:
        """Listen at an address of this host, `host` or `host:port`. Raises CertificateError, BadJob."""
        self._context, self._certificate = server_context(pem), pinned(pem)
        self._timeout, self._events = timeout, agents
        self._socket = _listening(address)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited by the connections
        self.port: int = self._socket.getsockname()[1]
        self.refused = 0  # the number of connections that had no key, sent no hello, or were refused
        self._agents: dict[str, ConnectedAgent] = {}
        self._strangers: dict[Link, float] = {}  # deadlines of connections without a welcome
        self._deaf_until = math.inf
        self._look_at = math.inf
        self._poller = Poller("listener", post, self._turn)
        self._poller.watch(self._socket.fileno(), self._accept)
        self._poller.start()

    def stop(self) -> None:
        """End all connections at once, without a message to the agents or any further event."""
        self._poller.do(self._drop)
        self._poller.stop()
        self._socket.close()

    def opened(self, link: Link) -> None:
        """Do nothing: the agent sends its hello next."""

    def received(self, link: Link, frame: Frame) -> None:
        try:
            hello = parse_hello(frame)
            agent = self._agents.get(hello.session) or self._new(hello)
            if agent.peer.why_over is not None:
                raise AgentRefused(f"The supervisor has given up the agent on {hello.host}. {agent.peer.why_over}")
        except AgentRefused as error:
            self._forget(link)
            link.close(refusal(str(error)))
            return
        greeting = agent.session.welcome(hello, time.monotonic())
        del self._strangers[link]
        self._agents[hello.session] = agent
        self._look_by(agent.session.silent_at)
        agent.peer.begin(link, greeting)

    def next_frame(self) -> bytes | None:
        return None

    def ended(self, link: Link, why: str) -> None:
        self._forget(link)

    def _new(self, hello: Hello) -> ConnectedAgent:
        if hello.welcomed:
            raise AgentRefused(
                f"This supervisor does not know the agent on {hello.host}: it belongs to an earlier one."
            )
        session = SupervisorSession(self._timeout, time.monotonic())
        peer = SessionConnection(session, hello.host, self._events, self._poller.do, time.monotonic)
        peer.waits_when_closed = False
        return ConnectedAgent(peer, session)

    def _forget(self, link: Link) -> None:
        del self._strangers[link]
        self.refused += 1

    def _accept(self, _: int) -> None:
        """Accept one connection per turn of the poller, so that established connections are served first."""
        try:
            sock, _address = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # such as no free descriptor; without a pause, accepting would fail again and again
            self._poller.rearm(self._socket.fileno(), 0)
            self._deaf_until = time.monotonic() + DEAF
            self._look_by(self._deaf_until)
            return
        sock.setblocking(False)
        if len(self._strangers) >= MOST_STRANGERS:
            min(self._strangers, key=lambda link: link.heard).fail("too many connections")
        tls = Tls(self._context, self._certificate, is_server=True)
        until = time.monotonic() + WELCOME_WITHIN
        self._strangers[Link(self._poller, sock, tls, self, time.monotonic)] = until
        self._look_by(until)

    def _look_by(self, moment: float) -> None:
        self._look_at = min(self._look_at, moment)

    def _turn(self) -> float | None:
        if (now := time.monotonic()) >= self._look_at:
            self._look(now)
        return None if self._look_at == math.inf else max(0.0, self._look_at - time.monotonic())

    def _look(self, now: float) -> None:
        """Act on expired deadlines, and note the earliest remaining one. Deadlines are only ever postponed."""
        if now >= self._deaf_until:
            self._deaf_until = math.inf
            self._poller.rearm(self._socket.fileno(), READABLE)
        for link in [link for link, until in self._strangers.items() if until <= now]:
            link.fail("no hello in time")
        present = [agent for agent in self._agents.values() if agent.peer.why_over is None]
        for peer, session in present:
            if session.lost_at <= now:
                peer.end(f"Nothing was received from {peer.host} for {now - session.heard:.1f} s.")
            elif session.silent_at <= now:  # TCP may take minutes to notice a cut
                peer.cut(f"nothing was received for {now - session.heard:.1f} s")
        alive = [(peer, session) for peer, session in present if peer.why_over is None]
        due = (session.silent_at if peer.is_linked else session.lost_at for peer, session in alive)
        self._look_at = min(self._deaf_until, *self._strangers.values(), *due, math.inf)

    def _drop(self) -> None:
        for link in list(self._strangers):
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

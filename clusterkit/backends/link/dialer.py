"""The dialer: the agent's side of the connection. It reconnects to the supervisor until the agent's lease ends."""

from __future__ import annotations

import math
import random
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from clusterkit.backends.link.address import Address, Resolver
from clusterkit.backends.link.certificate import Tls, pinned, tls_context
from clusterkit.backends.link.connection import AgentEvents, SessionConnection
from clusterkit.backends.link.frames import AgentRefused, Frame
from clusterkit.backends.link.link import Link, LinkOwner, reason
from clusterkit.backends.link.session import AgentSession
from clusterkit.system.poller import Poller
from clusterkit.text.endpoints import endpoint_of
from clusterkit.words.events import Crashed

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds; the first and the longest pause between attempts to connect
CONNECT_WITHIN = 2.0  # seconds; the time limit for TCP to connect; TCP retries too rarely to notice the end of a cut
WELCOME_WITHIN = 2.0  # seconds; the time limit for an answer to the hello, or a third of the timeout if that is longer


class Dialer(LinkOwner):
    """An agent's connection to its supervisor. Raises CertificateError, OSError."""

    def __init__(
        self,
        pem: Path,
        address: tuple[str, int],
        host: str,
        timeout: float,
        post: Callable[[Crashed], None],
        events: AgentEvents,
    ) -> None:
        self._context, self._certificate = tls_context(pem, is_server=False), pinned(pem)
        self._addresses = deque[Address]()  # addresses to try before the name is resolved again
        self.address = address  # the supervisor's address; after a welcome, the address that answered
        self._name = endpoint_of(*address)
        self._session = AgentSession(secrets.token_hex(16), host, timeout, _now())
        self._poller = Poller("dialer", post, self._turn)
        self._peer = SessionConnection(self._session, self._name, events, self._poller.do, _now)
        self._resolver = Resolver(address, self._poller.do, self._resolved, post)
        self._link: Link | None = None
        self._dial_at = _now()
        self._pause = FIRST_PAUSE
        self._last_error = "it does not answer"
        self._poller.start()

    def stop(self) -> None:
        """End the connection at once, without a message to the supervisor or any further event."""
        self._poller.do(self._drop)
        self._poller.stop()

    def opened(self, link: Link) -> None:
        link.send(self._session.hello(_now()))

    def received(self, link: Link, frame: Frame) -> None:
        try:
            self._session.welcome(frame)
        except AgentRefused as error:
            link.close()
            self._peer.end(self._session.close_reason or str(error))
            return
        self._pause = FIRST_PAUSE
        host, port, *_ = self._addresses[0].sockaddr
        self.address = str(host), int(port)
        self._addresses.clear()  # the next connection resolves the name again, since the address may have changed
        self._peer.begin(link)

    def ended(self, link: Link, why: str) -> None:
        self._last_error = why

    def _turn(self) -> float | None:
        """Act on expired deadlines, and connect if necessary; return the seconds until the next deadline."""
        if self._peer.end_reason is not None:
            return None
        now = _now()
        if now >= self._session.lease:
            self._give_up()
            return None
        if self._link is not None:
            self._check_link(self._link, now)
        if self._link is None and now >= self._dial_at and not self._resolver.is_busy:
            self._dial(now)
        return max(0.0, min(self._session.lease, self._next_deadline()) - _now())

    def _next_deadline(self) -> float:
        if self._link is None or self._link.is_closed:
            return math.inf if self._resolver.is_busy else self._dial_at
        if self._link.user is self:
            return self._welcome_by(self._link)
        return min(self._session.next_beat, self._silent_at(self._link))

    def _check_link(self, link: Link, now: float) -> None:
        if link.user is self:
            if now >= self._welcome_by(link):
                link.fail("it does not answer")
        elif now >= self._silent_at(link):  # TCP may take minutes to notice a cut
            link.fail(f"nothing was received for {now - link.heard_at:.1f} s")
        elif now >= self._session.next_beat:
            self._session.beat(now)
            link.pump()
        if link.is_closed:
            self._link = None
            self._schedule_dial(now)

    def _schedule_dial(self, now: float) -> None:
        if self._addresses:
            self._addresses.popleft()
        self._dial_at = now + self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _welcome_by(self, link: Link) -> float:
        within = max(WELCOME_WITHIN, self._session.timeout / 3) if link.is_connected else CONNECT_WITHIN
        return self._dial_at + within

    def _silent_at(self, link: Link) -> float:
        return link.heard_at + self._session.timeout / 2

    def _dial(self, now: float) -> None:
        self._dial_at = now
        if not self._addresses:
            self._last_error = "its name is not resolved yet"
            self._resolver.begin()
        if not self._addresses:
            return
        try:
            sock = _connecting(self._addresses[0])
        except OSError as error:
            self._last_error = reason(error)
            self._schedule_dial(now)
            return
        tls = Tls(self._context, self._certificate, is_server=False)
        tls.receive(b"")
        self._link = Link(self._poller, sock, tls, self, _now)

    def _resolved(self, found: list[Address], why: str) -> None:
        self._addresses.extend(found)
        if not found:
            self._last_error = why
            self._schedule_dial(_now())

    def _give_up(self) -> None:
        self._drop()
        why = f"The supervisor at {self._name} was not reached for {self._session.timeout:g} s: {self._last_error}."
        self._peer.end(self._session.close_reason or why)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()


def _connecting(address: Address) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect(address.sockaddr)
    except BlockingIOError:
        return sock
    except OSError:
        sock.close()
        raise
    return sock


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # unlike CLOCK_MONOTONIC, advances while the host is suspended

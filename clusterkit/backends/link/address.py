"""Finds the address at which other hosts reach this host, and resolves the supervisor's name."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple

import psutil

from clusterkit.system.barrier import start_thread
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Crashed


class NoInterface(ClusterkitError):
    """Raised if the requested interface does not exist, or has no address."""


def family_of(host: str) -> socket.AddressFamily:
    """Return the address family of a host; a name is treated as IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def own_address(peer: tuple[str, int], interface: str | None = None) -> str:
    """Return this host's address on `interface`, or else the one used to reach `peer`. Raises NoInterface, OSError."""
    if interface is not None:
        return address_on(interface)
    family, _, _, _, address = socket.getaddrinfo(*peer, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as towards:
        towards.connect(address)  # sends no packet, but selects the address
        own = str(towards.getsockname()[0])
    if _is_link_local(own):
        raise NoInterface(
            f"This host's address on the way to the supervisor, {own}, is valid on one link only, and TensorFlow can't "
            "use it. Give the supervisor's global address with --listen, or an --interface that has one."
        )
    return own


def address_on(interface: str) -> str:
    """Return the interface's IPv4 address, or else an IPv6 address that is not link-local. Raises NoInterface."""
    interfaces = psutil.net_if_addrs()
    every = [one for one in interfaces.get(interface, ()) if one.family in (socket.AF_INET, socket.AF_INET6)]
    found = {one.family: one.address for one in reversed(every) if not _is_link_local(one.address)}
    if not found:
        raise NoInterface(
            f"The interface {interface} has no address here, or does not exist. There are {', '.join(interfaces)}."
        )
    return found.get(socket.AF_INET) or found[socket.AF_INET6]


def _is_link_local(address: str) -> bool:
    return ":" in address and ip_address(address).is_link_local


class Address(NamedTuple):
    """One resolved address of a host name; `sockaddr` is the argument for socket.connect."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


class Resolver:
    """Resolves a name without caching. Calls `answer` with the addresses or an error, in the thread that `do` uses."""

    def __init__(
        self,
        name: tuple[str, int],
        do: Callable[[Callable[[], None]], None],
        answer: Callable[[list[Address], str], None],
        post: Callable[[Crashed], None],
    ) -> None:
        self._name, self._do, self._answer, self._post = name, do, answer, post
        self.is_busy = False

    def begin(self) -> None:
        """Resolve the name in a new thread; resolve a numeric address at once."""
        try:
            self._answer(look_up(self._name, socket.AI_NUMERICHOST), "")
        except (OSError, UnicodeError):
            self.is_busy = True
            start_thread("resolver", self._resolve, self._post)

    def _resolve(self) -> None:
        found, why = list[Address](), ""
        try:
            found = look_up(self._name)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            why = f"its name does not resolve ({reason.rstrip('.')})"
        self._do(lambda: self._resolved(found, why))

    def _resolved(self, found: list[Address], why: str) -> None:
        self.is_busy = False
        self._answer(found, why)


def look_up(name: tuple[str, int], flags: int = 0) -> list[Address]:
    """Return the addresses of a host name and port. Raises OSError, UnicodeError."""
    found = socket.getaddrinfo(*name, type=socket.SOCK_STREAM, flags=flags)
    return [Address(family, where) for family, _, _, _, where in found]

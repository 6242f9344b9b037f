"""Addresses of this host, as others reach it."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import psutil

from clusterkit.words.errors import ClusterkitError


class NoInterface(ClusterkitError):
    """The interface that was asked for is not there, or has no address."""


def family_of(host: str) -> socket.AddressFamily:
    """That of an address; a name counts as IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def own_address(peer: tuple[str, int], interface: str | None = None) -> str:
    """This host's address on the interface, or else on the way to `peer`. Raises NoInterface, OSError."""
    if interface is not None:
        return address_on(interface)
    family, _, _, _, address = socket.getaddrinfo(*peer, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as towards:
        towards.connect(address)  # sends nothing
        own = str(towards.getsockname()[0])
    if _is_link_local(own):
        raise NoInterface(
            f"This host's address on the way to the supervisor, {own}, is valid on one link only, and TensorFlow can't "
            "use it. Give the supervisor's global address with --listen, or an --interface that has one."
        )
    return own


def address_on(interface: str) -> str:
    """This host's address on the interface: an IPv4 one, or else one of IPv6 that is not link-local.

    Raises NoInterface.
    """
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

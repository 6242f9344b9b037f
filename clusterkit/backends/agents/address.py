"""Addresses of this host, as others reach it."""

from __future__ import annotations

import socket

import psutil

from clusterkit.words.errors import ClusterkitError


class NoInterface(ClusterkitError):
    """The interface that was asked for is not there, or has no address."""


def host_in(endpoint: str) -> str:
    """The host in `host:port`, `[::1]:port` or a host alone."""
    return split(endpoint)[0]


def split(endpoint: str) -> tuple[str, int]:
    """`host:port`, `[::1]:port`, or a host alone, which has port 0. Raises ValueError."""
    host, colon, port = endpoint.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        return endpoint.strip("[]"), 0
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise ValueError(f"{endpoint!r} is not of the form HOST:PORT.")
    return host.strip("[]"), int(port)


def own_address(peer: tuple[str, int], interface: str | None = None) -> str:
    """This host's address on the interface, or else on the way to `peer`. Raises NoInterface, OSError."""
    if interface is None:
        family, _, _, _, address = socket.getaddrinfo(*peer, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as towards:
            towards.connect(address)  # sends nothing
            return str(towards.getsockname()[0])
    return address_on(interface)


def address_on(interface: str) -> str:
    """This host's address on the interface. Raises NoInterface."""
    interfaces = psutil.net_if_addrs()
    found = [one.address for one in interfaces.get(interface, ()) if one.family == socket.AF_INET]
    if not found:
        raise NoInterface(
            f"The interface {interface} has no IPv4 address here, or does not exist. There are {', '.join(interfaces)}."
        )
    return found[0]

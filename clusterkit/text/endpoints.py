"""Endpoints as text: `host:port`, or `[::1]:port` if the host is an IPv6 address."""

from __future__ import annotations


def endpoint_of(host: str, port: int) -> str:
    """Return the endpoint of a port on a host; an IPv6 address gets brackets, as TensorFlow expects."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_in(endpoint: str) -> str:
    """Return the host in `host:port`, `[::1]:port` or a host alone, without brackets."""
    return split(endpoint)[0]


def split(endpoint: str) -> tuple[str, int]:
    """Split `host:port`, `[::1]:port`, or a host alone, which gets port 0. Raises ValueError for an invalid port."""
    host, colon, port = endpoint.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        return endpoint.strip("[]"), 0
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise ValueError(f"{endpoint!r} is not of the form HOST:PORT.")
    return host.strip("[]"), int(port)

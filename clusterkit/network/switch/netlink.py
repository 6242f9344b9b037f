"""Netlink: creates cables and routes in the network namespace that this process is in (man 7 rtnetlink)."""

from __future__ import annotations

import os
import socket
import struct
from types import TracebackType

MTU = 65000  # bytes; large, since the switch's cost is per packet
_NEWLINK, _GETLINK, _SETLINK, _NEWROUTE, _DELROUTE = 16, 18, 19, 24, 25
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
_ERROR = 2
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINKINFO, _IFLA_AF_SPEC, _IFLA_NET_NS_FD = 1, 3, 4, 18, 26, 28
_INFO_KIND, _INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_INET_CONF, _CONF_FORWARDING = 1, 1
_RTA_DST, _RTA_OIF, _RTA_PREFSRC = 1, 4, 7
_TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _UNICAST = 254, 4, 253, 1
_IFF_UP, _IFF_NOARP = 0x1, 0x80
_HEADER, _LINK, _ROUTE = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=8BI")
# The same for every device: without ARP a device sends to its own address, so the other end has to have that too.
_MAC = b"\x02\0\0\0\0\1"


class Netlink:
    """A socket to the kernel, which stays with the namespace in which it was opened. Every method raises OSError."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def lay(self, name: str, other: str, namespace: int) -> None:
        """Create a cable with both ends down: `name` in this namespace and `other` in `namespace`."""
        peer = _end(other) + _attribute(_IFLA_NET_NS_FD, struct.pack("=I", namespace))
        data = _attribute(_INFO_DATA, _attribute(_VETH_INFO_PEER, peer))
        kind = _attribute(_IFLA_LINKINFO, _attribute(_INFO_KIND, b"veth") + data)
        self._ask(_NEWLINK, _ACK | _CREATE | _EXCL, _end(name) + kind)

    def index(self, name: str) -> int:
        answer = self._ask(_GETLINK, 0, _LINK.pack(0, 0, 0, 0, 0) + _name(name))
        number: int = _LINK.unpack_from(answer)[2]
        return number

    def forward(self, device: int) -> None:
        """Set a device up, and forward the packets from it that are for other hosts."""
        # Why not /proc/sys: many containers mount it read-only.
        conf = _attribute(_INET_CONF, _attribute(_CONF_FORWARDING, struct.pack("=I", 1)))
        spec = _attribute(_IFLA_AF_SPEC, _attribute(socket.AF_INET, conf))
        self._ask(_SETLINK, _ACK, _LINK.pack(0, 0, device, _IFF_UP, _IFF_UP) + spec)

    def route(self, address: bytes, device: int, source: bytes | None = None) -> None:
        """Route packets for this one address to `device`, with `source`, if given, as their sender."""
        preferred = b"" if source is None else _attribute(_RTA_PREFSRC, source)
        self._ask(_NEWROUTE, _ACK | _CREATE | _REPLACE, _route(address, device) + preferred)

    def unroute(self, address: bytes, device: int) -> None:
        self._ask(_DELROUTE, _ACK, _route(address, device))

    def _ask(self, kind: int, flags: int, body: bytes) -> bytes:
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 0, 0) + body)
        answer = self._socket.recv(1 << 16)
        body = answer[_HEADER.size :]
        if _HEADER.unpack_from(answer)[1] == _ERROR and (number := -struct.unpack_from("=i", body)[0]):
            raise OSError(number, os.strerror(number))
        return body


def _end(name: str) -> bytes:
    more = _attribute(_IFLA_MTU, struct.pack("=I", MTU)) + _attribute(_IFLA_ADDRESS, _MAC)
    return _LINK.pack(0, 0, 0, _IFF_NOARP, _IFF_NOARP) + _name(name) + more


def _name(name: str) -> bytes:
    return _attribute(_IFLA_IFNAME, name.encode() + b"\0")


def _route(address: bytes, device: int) -> bytes:
    kind = _ROUTE.pack(socket.AF_INET, 32, 0, 0, _TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _UNICAST, 0)
    return kind + _attribute(_RTA_DST, address) + _attribute(_RTA_OIF, struct.pack("=I", device))


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)

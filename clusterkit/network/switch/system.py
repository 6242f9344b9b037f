"""Kernel features that Python's library lacks: namespaces, mounts, the parent-death signal, cables and routes."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_MOVE, MS_REC, MS_SLAVE = 0x2, 0x4, 0x2000, 0x4000, 1 << 19
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_KINDS = {CLONE_NEWNS: "mnt", CLONE_NEWUSER: "user", CLONE_NEWNET: "net"}
_NAMES = {CLONE_NEWNS: "mount", CLONE_NEWUSER: "user", CLONE_NEWNET: "network"}
# Each pair consists of a kernel setting and the value that prevents unprivileged users from creating namespaces.
_SETTINGS = (
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ("user.max_user_namespaces", "0"),
    ("user.max_net_namespaces", "0"),
    ("user.max_mnt_namespaces", "0"),
)
_libc = ctypes.CDLL(None, use_errno=True)
MTU = 65000  # bytes; large, since the switch needs the same time for packets of all sizes
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
# Both ends of a cable have the same MAC address: a device without ARP sends packets to its own address.
_MAC = b"\x02\0\0\0\0\1"


class NotPossible(Exception):
    """Raised if this machine does not support a feature. The message is a clause that explains why."""


def has_rights() -> bool:
    """Return whether this process may create network and mount namespaces without a user namespace."""
    lines = Path("/proc/self/status").read_text().splitlines()
    rights = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return all(rights >> number & 1 for number in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


def new_namespace(flag: int) -> int:
    """Create and enter a namespace of the type `flag` (CLONE_NEW*); return its descriptor. Raises NotPossible."""
    try:
        _call("unshare", flag)
    except OSError as error:
        raise NotPossible(f"{_NAMES[flag]} namespaces {_why_unavailable(error)}") from None
    return os.open(f"/proc/self/ns/{_KINDS[flag]}", os.O_RDONLY | os.O_CLOEXEC)


def new_network() -> int:
    """Create and enter a network namespace without IPv6; return its descriptor. Raises NotPossible."""
    descriptor = new_namespace(CLONE_NEWNET)
    # The switch forwards only IPv4. Disable IPv6, so that programs do not wait for IPv6 addresses.
    for place in ("all", "default"):
        with suppress(OSError):  # the kernel may lack IPv6, and in a container, /proc/sys may be read-only
            Path(f"/proc/sys/net/ipv6/conf/{place}/disable_ipv6").write_text("1")
    return descriptor


def new_user_namespace() -> int:
    """Create and enter a user namespace that keeps this user's ids; return its descriptor. Raises NotPossible."""
    user, group = os.getuid(), os.getgid()
    descriptor = new_namespace(CLONE_NEWUSER)
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise NotPossible(f"user namespaces {_why_unavailable(error)}") from None
    return descriptor


def enter(namespace: int) -> None:
    """Move this process into a namespace. Raises NotPossible."""
    try:
        _call("setns", namespace, 0)
    except OSError as error:
        raise NotPossible(f"a namespace can't be entered: {reason_of(error)}") from None


def make_mounts_private() -> None:
    """Hide new mounts in this namespace from other namespaces. New mounts in others still appear in this namespace."""
    mount("none", "/", flags=MS_REC | MS_SLAVE)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system. Raises OSError."""
    _call("mount", *map(os.fsencode, (source, target, kind)), flags, os.fsencode(options))


def detach(target: str) -> None:
    """Unmount a file system lazily: open files stay open. Raises OSError."""
    _call("umount2", os.fsencode(target), MNT_DETACH)


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when the thread that started it ends. Die now if `parent` has already ended."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _why_unavailable(error: OSError) -> str:
    if error.errno in (errno.EINVAL, errno.ENOSYS):
        return "are not supported by this kernel"
    off = [f"{name}={value}" for name, value in _SETTINGS if _setting(name) == value]
    if off:
        return f"are switched off ({', '.join(off)})"
    return f"can't be created: {reason_of(error)}"


def reason_of(error: OSError) -> str:
    """Return the error's text as a clause, beginning with a lower-case letter."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return ""


def _call(name: str, *arguments: int | bytes) -> None:
    given: Sequence[object] = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    if getattr(_libc, name)(*given) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Netlink:
    """A netlink socket, bound to the network namespace in which it was opened. Every method raises OSError."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def add_cable(self, name: str, other: str, namespace: int) -> None:
        """Create a cable between the devices `name` in this namespace and `other` in `namespace`, both still down."""
        peer = _end(other) + _attribute(_IFLA_NET_NS_FD, struct.pack("=I", namespace))
        data = _attribute(_INFO_DATA, _attribute(_VETH_INFO_PEER, peer))
        kind = _attribute(_IFLA_LINKINFO, _attribute(_INFO_KIND, b"veth") + data)
        self._ask(_NEWLINK, _ACK | _CREATE | _EXCL, _end(name) + kind)

    def index(self, name: str) -> int:
        answer = self._ask(_GETLINK, 0, _LINK.pack(0, 0, 0, 0, 0) + _name(name))
        number: int = _LINK.unpack_from(answer)[2]
        return number

    def forward(self, device: int) -> None:
        """Bring a device up, and enable the forwarding of packets that arrive on the device."""
        # Why not set this in /proc/sys: many containers mount it read-only.
        conf = _attribute(_INET_CONF, _attribute(_CONF_FORWARDING, struct.pack("=I", 1)))
        spec = _attribute(_IFLA_AF_SPEC, _attribute(socket.AF_INET, conf))
        self._ask(_SETLINK, _ACK, _LINK.pack(0, 0, device, _IFF_UP, _IFF_UP) + spec)

    def route(self, address: bytes, device: int, source: bytes | None = None) -> None:
        """Route packets for this address to `device`. `source`, if given, becomes the packets' sender address."""
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

"""Creates virtual hosts: a network namespace for each task, with a TUN device to the switch and a cable (veth pair)."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from clusterkit.network.switch.system import MTU, Netlink, NotPossible, enter, new_network, reason_of

CABLE, TUN = "eth0", "tun0"  # the names of the devices in a host's namespace
Pair = tuple[int, int]
NETMASK = "255.0.0.0"
_TUN = "/dev/net/tun"
_TUNSETIFF, _TUNSETPERSIST, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x400454CB, 0x0001, 0x1000
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFMTU, _SIOCSIFFLAGS = 0x8916, 0x891C, 0x8922, 0x8914
_UP = 0x1 | 0x40 | 0x80  # IFF_UP, IFF_RUNNING, IFF_NOARP


class Hub:
    """The namespace in which all cables end. When this process ends, the kernel removes it and the cables."""

    def __init__(self) -> None:
        """Create and enter the namespace. Raises NotPossible, for example if the kernel does not support veth pairs."""
        self._namespace = new_network()
        self._cables = 0
        self._kernel = Netlink()
        try:  # create a trial cable, since a hub is useless without cables
            self._kernel.add_cable("trial0", "trial1", self._namespace)
            self._kernel.forward(self._kernel.index("trial0"))
        except OSError as error:
            raise NotPossible(f"a veth pair can't be created: {reason_of(error)}") from None

    def connect(self, address: bytes) -> None:
        """Create a cable and a route to the host whose namespace this process has entered. Raises OSError."""
        name, self._cables = f"host{self._cables}", self._cables + 1
        with Netlink() as there:
            there.add_cable(CABLE, name, self._namespace)
        device = self._kernel.index(name)
        self._kernel.forward(device)
        self._kernel.route(address, device)


@dataclass(slots=True)
class Detours:
    """Changes the route of packets between two hosts: over cables, or through the switch (a detour)."""

    namespaces: Sequence[int]
    addresses: Sequence[bytes]

    def make(self, pairs: Iterable[Pair]) -> None:
        """Route all packets between the hosts of each pair through the switch. Raises NotPossible."""
        for host, others in _by_host(pairs).items():
            enter(self.namespaces[host])
            try:
                with Netlink() as kernel:
                    tun = kernel.index(TUN)
                    for other in others:
                        kernel.route(self.addresses[other], tun, self.addresses[host])
            except OSError as error:  # a privileged task may have deleted its TUN device
                raise NotPossible(f"a task's packets can't be routed to its TUN device: {reason_of(error)}") from None

    def end(self, pairs: Iterable[Pair]) -> None:
        for host, others in _by_host(pairs).items():
            with suppress(NotPossible, OSError):
                enter(self.namespaces[host])
                with Netlink() as kernel:
                    tun = kernel.index(TUN)
                    for other in others:
                        kernel.unroute(self.addresses[other], tun)


def _by_host(pairs: Iterable[Pair]) -> dict[int, list[int]]:
    others = defaultdict[int, list[int]](list)
    for a, b in pairs:
        others[a].append(b)
        others[b].append(a)
    return others


class VirtualHost(NamedTuple):
    namespace: int
    device: int


def new_host(address: str, hub: Hub | None) -> VirtualHost:
    """Create and enter a network namespace, and set up its devices. Raises NotPossible.

    The address is assigned to the cable or, if there is no hub, to the TUN device. The kernel removes the namespace and
    its devices once no descriptor refers to them and no process is in the namespace.
    """
    namespace = new_network()
    tun = CABLE if hub is None else TUN
    device = _open_tun(tun)
    try:
        if hub is not None:
            hub.connect(socket.inet_aton(address))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCSIFMTU, struct.pack("16si20x", tun.encode(), MTU))
            fcntl.ioctl(control, _SIOCSIFADDR, _address(address))
            fcntl.ioctl(control, _SIOCSIFNETMASK, _address(NETMASK))
            for name in dict.fromkeys((tun, CABLE, "lo")):
                fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(), _UP))
    except OSError as error:
        raise NotPossible(f"the network devices of a task can't be set up: {reason_of(error)}") from None
    return VirtualHost(namespace, device)


def release(devices: Iterable[int]) -> None:
    """Keep the devices until their namespaces end, since closing a device that is not persistent takes 20 ms."""
    for device in devices:
        with suppress(OSError):
            fcntl.ioctl(device, _TUNSETPERSIST, 1)


def _open_tun(name: str) -> int:
    try:
        device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ENXIO):
            raise NotPossible("this kernel has no TUN devices (modprobe tun)") from None
        raise NotPossible(f"{_TUN} can't be opened: {reason_of(error)}") from None
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        os.close(device)
        raise NotPossible(f"a TUN device can't be created: {reason_of(error)}") from None
    return device


def _address(address: str) -> bytes:
    return struct.pack("16sH2x4s8x", CABLE.encode(), socket.AF_INET, socket.inet_aton(address))

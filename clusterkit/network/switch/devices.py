"""Hosts: for each task a network namespace with a TUN device, which this process reads and writes, and a cable."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from clusterkit.network.switch.cables import CABLE, TUN, Hub
from clusterkit.network.switch.netlink import MTU
from clusterkit.network.switch.system import NotPossible, new_network, reason_of

NETMASK = "255.0.0.0"
_TUN = "/dev/net/tun"
_TUNSETIFF, _TUNSETPERSIST, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x400454CB, 0x0001, 0x1000
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFMTU, _SIOCSIFFLAGS = 0x8916, 0x891C, 0x8922, 0x8914
_UP = 0x1 | 0x40 | 0x80  # IFF_UP, IFF_RUNNING, IFF_NOARP


class Host(NamedTuple):
    """Descriptors of a task's network namespace and of its TUN device."""

    namespace: int
    device: int


def new_host(address: str, hub: Hub | None) -> Host:
    """Create and enter a network namespace with its devices, and set them up. Raises NotPossible.

    The address belongs to the cable to the hub; without a hub, to the TUN device. The kernel removes the namespace and
    its devices once no descriptor refers to them and no process is in it.
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
    return Host(namespace, device)


def release(devices: Iterable[int]) -> None:
    """Have the kernel remove the devices together with their namespaces, and not on close, which takes 20 ms each."""
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

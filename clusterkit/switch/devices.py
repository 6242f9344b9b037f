"""Devices: a network namespace with one TUN device, whose packets this process reads and writes."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clusterkit.switch.system import CLONE_NEWNET, NotPossible, new_namespace, said

NAME = b"eth0"
NETMASK = "255.0.0.0"
MTU = 65000  # bytes: the larger a packet, the fewer of them pass through this process
_TUN = "/dev/net/tun"
_TUNSETIFF, _TUNSETPERSIST, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x400454CB, 0x0001, 0x1000
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFMTU, _SIOCSIFFLAGS = 0x8916, 0x891C, 0x8922, 0x8914
_IFF_UP, _IFF_RUNNING = 0x1, 0x40


class Host(NamedTuple):
    """What is a task's: descriptors of its namespace and of its device."""

    namespace: int
    device: int


def new_host(address: str) -> Host:
    """Go into a new network namespace with a device of that address, which is up. Raises NotPossible.

    Nothing is persistent: both are gone when nothing has them open and no process is in the namespace.
    """
    namespace = new_namespace(CLONE_NEWNET)
    _forget_ipv6()
    device = _open_tun()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCSIFADDR, _address(address))
            fcntl.ioctl(control, _SIOCSIFNETMASK, _address(NETMASK))
            fcntl.ioctl(control, _SIOCSIFMTU, struct.pack("16si20x", NAME, MTU))
            for name in (NAME, b"lo"):
                fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", name, _IFF_UP | _IFF_RUNNING))
    except OSError as error:
        raise NotPossible(f"a TUN device can't be set up: {said(error)}") from None
    return Host(namespace, device)


def leave(devices: Iterable[int]) -> None:
    """Let the devices go with their namespaces, all at once; with their descriptors, each would take 20 ms."""
    for device in devices:
        with suppress(OSError):
            fcntl.ioctl(device, _TUNSETPERSIST, 1)


def _open_tun() -> int:
    try:
        device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ENXIO):
            raise NotPossible("this kernel has no TUN devices (modprobe tun)") from None
        raise NotPossible(f"{_TUN} can't be opened: {said(error)}") from None
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", NAME, _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        os.close(device)
        raise NotPossible(f"a TUN device can't be made: {said(error)}") from None
    return device


def _address(address: str) -> bytes:
    return struct.pack("16sH2x4s8x", NAME, socket.AF_INET, socket.inet_aton(address))


def _forget_ipv6() -> None:
    """The switch carries none; a program that is told so at once tries no address of it."""
    for place in ("all", "default"):
        with suppress(OSError):  # a kernel without it, or a container with a /proc/sys that can't be written
            Path(f"/proc/sys/net/ipv6/conf/{place}/disable_ipv6").write_text("1")

"""Joins the kernel namespaces in which a task has a virtual network or a simulated full disk.

entry.py and the fork server load this file by path. It imports only standard modules that entry.py has already
imported, and calls setns(2) through ctypes, since os.setns is new in Python 3.12.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Sequence

NS_GET_NSTYPE = 0xB703  # man 2 ioctl_ns
CLONE_NEWNS = 0x00020000
PR_SET_DUMPABLE, PR_CAPBSET_READ, PR_CAPBSET_DROP = 4, 23, 24
CAPABILITY_VERSION_3 = 0x20080522  # man 2 capget; version 3 has three integers for every 32 capabilities


def join_or_end(namespaces: Sequence[int]) -> None:
    """Join the namespaces, or exit with a message, so that no task ever runs outside its own network."""
    try:
        join(namespaces)
    except OSError as error:
        why = error.strerror or str(error)
        os.write(2, f"clusterkit: this task can't join its namespaces: {why}.\n".encode())
        os._exit(1)


def join(namespaces: Sequence[int]) -> None:
    """Enter the namespaces that these descriptors refer to, in order, and close the descriptors. Raises OSError.

    The process keeps its user, capabilities and working directory, but may lose its parent-death signal.
    """
    capabilities, bounds = capget(), bounding_set()
    for descriptor in namespaces:
        if fcntl.ioctl(descriptor, NS_GET_NSTYPE) == CLONE_NEWNS:
            enter_mounts(descriptor)
        else:
            enter(descriptor)
        os.close(descriptor)
    if capget() != capabilities:  # entering a user namespace gives a process all capabilities in it
        for number in bounding_set() - bounds:
            checked("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
        capset(capabilities)
    # The supervisor reads this process's /proc files, which the change of capabilities has made unreadable.
    checked("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)


def enter(descriptor: int) -> None:
    checked("setns", descriptor, 0)


def enter_mounts(descriptor: int) -> None:
    """Enter a mount namespace, and return to the working directory, since the kernel changes it to the root directory.

    The directory is found by its path, because a descriptor would refer to a directory outside the namespace.
    """
    place, root = os.getcwd(), os.stat("/")
    enter(descriptor)
    if not os.path.samestat(root, os.stat("/")):
        raise OSError("this process runs in a chroot")
    os.chdir(place)


def bounding_set() -> set[int]:
    """Return the capabilities that this process and its children can ever have."""
    libc = ctypes.CDLL(None)
    return {number for number in range(64) if libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1}


def capget() -> tuple[int, ...]:
    data = (ctypes.c_uint32 * 6)()
    checked("capget", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), data)
    return tuple(data)


def capset(capabilities: Sequence[int]) -> None:
    checked("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)(*capabilities))


def checked(name: str, *args: object) -> None:
    """Call a function of the C library. Raises OSError if it returns -1."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)

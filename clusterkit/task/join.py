"""Joining: how a task gets into the namespaces that are made for it, and is otherwise what it was.

Loaded by path in every task that has namespaces, cold and warm: standard library only, and of that nothing which
entry.py has not imported. Python has os.setns since 3.12 only, so ctypes.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Sequence

NS_GET_NSTYPE = 0xB703  # man 2 ioctl_ns
CLONE_NEWNS = 0x00020000
PR_SET_DUMPABLE, PR_CAPBSET_READ, PR_CAPBSET_DROP = 4, 23, 24
CAPABILITY_VERSION_3 = 0x20080522  # man 2 capget: a header, and three words for each 32 capabilities


def join_or_end(namespaces: Sequence[int]) -> None:
    """Join, or say why not and end: no task is ever in a network that is not its own."""
    try:
        join(namespaces)
    except OSError as error:
        why = error.strerror or str(error)
        os.write(2, f"clusterkit: this task can't join the namespaces that were made for it: {why}.\n".encode())
        os._exit(1)


def join(namespaces: Sequence[int]) -> None:
    """Enter these namespaces in this order, and close their descriptors. Raises OSError.

    The user, the capabilities and the working directory are afterwards what they were before. The parent-death signal
    may not be: ask for it after this.
    """
    capabilities, bounds = capget(), bounding_set()
    for descriptor in namespaces:
        if fcntl.ioctl(descriptor, NS_GET_NSTYPE) == CLONE_NEWNS:
            enter_mounts(descriptor)
        else:
            enter(descriptor)
        os.close(descriptor)
    if capget() != capabilities:  # who enters a user namespace has them all in it
        for number in bounding_set() - bounds:
            checked("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
        capset(capabilities)
    # What changes its credentials is closed to the others of its user, and so to the supervisor.
    checked("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)


def enter(descriptor: int) -> None:
    """Go into one namespace."""
    checked("setns", descriptor, 0)


def enter_mounts(descriptor: int) -> None:
    """Go into a mount namespace, whose root it puts this process into, and back to where this process was.

    By path: a descriptor would lead out of the namespace again.
    """
    place, root = os.getcwd(), os.stat("/")
    enter(descriptor)
    if not os.path.samestat(root, os.stat("/")):
        raise OSError("this process has a root directory of its own (chroot)")
    os.chdir(place)


def bounding_set() -> set[int]:
    """The capabilities that this process and its children can ever have."""
    libc = ctypes.CDLL(None)
    return {number for number in range(64) if libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1}


def capget() -> tuple[int, ...]:
    """This thread's capabilities as the kernel gives them."""
    data = (ctypes.c_uint32 * 6)()
    checked("capget", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), data)
    return tuple(data)


def capset(capabilities: Sequence[int]) -> None:
    """Have just these."""
    checked("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)(*capabilities))


def checked(name: str, *args: object) -> None:
    """Call a function of the C library. Raises OSError where it says -1."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)

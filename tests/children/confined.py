"""Changes one thing that children inherit, tells what it has to say of itself, and waits: `confined.py ROOT WHAT`."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from collections.abc import Callable

sys.path.insert(0, sys.argv[1])
from clusterkit.warm.confinement import CALLS, own_attributes  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)


def prctl(*args: int) -> None:
    """Succeed, or raise OSError."""
    if libc.prctl(*map(ctypes.c_ulong, args), *[0] * (5 - len(args))):
        raise OSError(ctypes.get_errno(), "prctl")


def write(path: str, text: str) -> None:
    """Write a file of /proc."""
    with open(path, "w") as file:
        file.write(text)


def filter_calls() -> None:
    """A seccomp filter that allows everything."""
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(allow)))
    prctl(22, 2, ctypes.addressof(program))


def set_mempolicy() -> None:
    """Prefer the node 0."""
    nodes = ctypes.c_ulong(1)
    number = {239: 238, 236: 237}[CALLS[os.uname().machine][0]]
    if libc.syscall(number, 1, ctypes.byref(nodes), ctypes.c_ulong(64)):
        raise OSError(ctypes.get_errno(), "set_mempolicy")


def join_keyring() -> None:
    """A session keyring of its own."""
    if libc.syscall(CALLS[os.uname().machine][2], 1, None) < 0:
        raise OSError(ctypes.get_errno(), "keyctl")


def unshare(flag: int) -> Callable[[], None]:
    """A namespace of its own."""

    def act() -> None:
        if libc.unshare(flag):
            raise OSError(ctypes.get_errno(), "unshare")

    return act


ACTS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "groups": lambda: os.setgroups([54321]),
    "gid": lambda: os.setresgid(54321, 0, 0),
    "uid": lambda: os.setresuid(0, 0, 54321),
    "bounding": lambda: prctl(24, 0),  # PR_CAPBSET_DROP, CAP_CHOWN
    "no_new_privs": lambda: prctl(38, 1),
    "seccomp": filter_calls,
    "oom_score_adj": lambda: write("/proc/self/oom_score_adj", "500"),
    "coredump_filter": lambda: write("/proc/self/coredump_filter", "0"),
    "securebits": lambda: prctl(28, 1 << 4),  # KEEP_CAPS
    "timer_slack": lambda: prctl(29, 70_000),
    "memory_errors": lambda: prctl(33, 1, 1),  # PR_MCE_KILL_SET, early
    "executable": lambda: prctl(65, 1),  # PR_SET_MDWE
    "huge_pages": lambda: prctl(41, 1),
    "speculation": lambda: prctl(53, 0, 4),  # PR_SET_SPECULATION_CTRL, PR_SPEC_DISABLE
    "personality": lambda: libc.personality(ctypes.c_ulong(0x0040000)),  # ADDR_NO_RANDOMIZE
    "scheduling": lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
    "disk": lambda: libc.syscall(CALLS[os.uname().machine][1] - 1, 1, 0, 3 << 13),  # ioprio_set, idle
    "memory": set_mempolicy,
    "keyring": join_keyring,
    "root": lambda: os.chroot("/proc"),
    "mounts": unshare(0x00020000),
    "network": unshare(0x40000000),
    "pids": unshare(0x20000000),
    "host_name": unshare(0x04000000),
    "ipc": unshare(0x08000000),
    "times": unshare(0x00000080),
}

try:
    ACTS[sys.argv[2]]()
except OSError as error:
    print(json.dumps(f"not possible here: {error}"), flush=True)
else:
    print(json.dumps(own_attributes()), flush=True)
sys.stdin.read()

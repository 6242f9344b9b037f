"""Compares the namespaces, privileges and other kernel attributes of a client with those of the warm server.

A run that a warm server forks inherits these attributes from the server, not from the client, and can't change them. So
the server serves only clients with the same attributes. The server loads this file by path, so the file imports only
the standard library.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any

PROC = "/proc"
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts")
LINKS = {f"ns/{name}": f"another {name.partition('_')[0]} namespace" for name in NAMESPACES} | {
    "root": "another root directory"
}
FILES = {
    "cgroup": "another control group",
    "attr/current": "another security label",
    "oom_score_adj": "another oom_score_adj",
    "loginuid": "another login uid",
    "sessionid": "another audit session",
    "coredump_filter": "another filter for core dumps",
}
# Maps the name of a line in /proc/PID/status to a phrase for messages, which says what the client has if its line
# differs from the server's.
STATUS = {
    **dict.fromkeys(("Uid", "Gid"), "other user or group ids"),
    "Groups": "other groups",
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "other capabilities"),
    "NoNewPrivs": "another no_new_privs",
    **dict.fromkeys(("Seccomp", "Seccomp_filters"), "another seccomp filter"),
    **dict.fromkeys(("Speculation_Store_Bypass", "SpeculationIndirectBranch"), "other speculation controls"),
    "THP_enabled": "another setting of transparent huge pages",
    "Mems_allowed_list": "other memory nodes",
}
# These lines show only whether a process has seccomp filters or Landlock rules, but not which. Two processes certainly
# have the same filters and rules only if both have inherited them from process 1.
HIDDEN = ("NoNewPrivs", "Seccomp", "Seccomp_filters")
# Maps the number of a prctl(2) operation to such a phrase. These operations can query only the calling process.
CONTROLS = {
    27: "other securebits",
    30: "another timer slack",
    34: "another policy for memory errors",
    66: "another policy for executable memory",
    68: "another policy for merging memory",
}
# Maps an architecture to the numbers of the system calls get_mempolicy, ioprio_get and keyctl, for which the C library
# has no functions.
CALLS = {"x86_64": (239, 252, 250), "aarch64": (236, 31, 219)}
MEMORY, DISK, KEYS = "another memory policy", "another I/O priority", "another session keyring"


def own_attributes() -> dict[str, Any]:
    """Return those attributes that a process can query only for itself. A client sends its attributes to the server."""
    libc = ctypes.CDLL(None)
    libc.syscall.restype = ctypes.c_long
    attributes = {str(number): libc.prctl(number, 0, 0, 0, 0) for number in CONTROLS}
    attributes["personality"] = libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    if platform.machine() in CALLS:
        get_mempolicy, ioprio_get, keyctl = CALLS[platform.machine()]
        mode, nodes = ctypes.c_int(0), (ctypes.c_ulong * 64)()
        libc.syscall(get_mempolicy, ctypes.byref(mode), nodes, ctypes.c_ulong(4096), None, 0)
        attributes[MEMORY] = [mode.value, int.from_bytes(bytes(nodes), sys.byteorder)]
        attributes[DISK] = libc.syscall(ioprio_get, 1, 0)
        attributes[KEYS] = libc.syscall(keyctl, 0, ctypes.c_int(-3), 0)
    return attributes


def difference(pid: int, of_client: object) -> str | None:
    """Return a difference between the client `pid` and this process, such as "another cgroup namespace", or None.

    `of_client` is the return value of `own_attributes` in the client.
    """
    return next(_differences(pid, of_client if isinstance(of_client, Mapping) else {}), None)


def _differences(pid: int, client: Mapping[Any, Any]) -> Iterator[str]:
    own = str(os.getpid())
    for names, read in ((LINKS, os.readlink), (FILES, _text)):
        for name, what in names.items():
            own_value = _or_none(read, f"{PROC}/{own}/{name}")
            if own_value is not None and own_value != _or_none(read, f"{PROC}/{pid}/{name}"):
                yield what
    ours, client_value, reference = (_or_none(_status, f"{PROC}/{one}/status") or {} for one in (own, pid, 1))
    for name, what in STATUS.items():
        if ours.get(name) != client_value.get(name):
            yield what
        elif name in HIDDEN and ours.get(name) not in (None, "0", reference.get(name)):
            yield f"{what}, as far as can be seen"
    if _scheduling(int(own)) != _scheduling(pid):
        yield "another scheduling policy"
    for name, value in own_attributes().items():
        if client.get(name) != value:
            yield CONTROLS.get(int(name) if name.isdecimal() else 0, name.replace("personality", "another personality"))


def _scheduling(pid: int) -> tuple[int, int] | None:
    try:
        return os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority
    except OSError:
        return None


def _or_none(read: Any, path: str) -> Any:
    try:
        return read(path)
    except (OSError, ValueError):
        return None


def _text(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _status(path: str) -> dict[str, str]:
    pairs = (line.partition(":")[::2] for line in _text(path).decode(errors="replace").splitlines())
    return {name: value.strip() for name, value in pairs}

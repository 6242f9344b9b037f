"""What Linux tells about processes. Each function raises CannotLook where it can't tell for want of descriptors."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from clusterkit.words.errors import CannotLook

WANT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # every other error says that the process is gone, or not ours
LISTENS, ESTABLISHED = "0A", "01"  # states of a TCP socket


def children(pid: int) -> list[int]:
    """Processes whose parent is `pid`; empty where there is no such process."""
    found: list[int] = []
    if not _lists_children():
        return [other for other in all_pids() if _parent(other) == pid]
    for thread in _names(f"/proc/{pid}/task"):
        found += map(int, (_read(f"/proc/{pid}/task/{thread}/children") or b"").split())
    return found


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents first."""
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children(todo.pop())
        found += below
        todo += below
    return found


def stat(pid: int) -> tuple[str, int, int] | None:
    """The state letter, process group and session of a process; None where there is none."""
    if (text := _read(f"/proc/{pid}/stat")) is None:
        return None
    fields = text.rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[2]), int(fields[3])


def is_zombie(pid: int) -> bool:
    """Whether the process has ended and waits to be reaped, or is gone."""
    seen = stat(pid)
    return seen is None or seen[0] in "ZX"


def environ(pid: int) -> dict[str, str]:
    """The environment with which the process was started; empty where it can't be read."""
    raw = _read(f"/proc/{pid}/environ") or b""
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def command_line(pid: int) -> list[str]:
    """The words with which the process was started; empty where they can't be read."""
    return (_read(f"/proc/{pid}/cmdline") or b"").decode(errors="replace").split("\0")


def all_pids() -> Iterator[int]:
    """Every process that can be seen."""
    return (int(name) for name in _names("/proc") if name.isdecimal())


def links(pid: int) -> set[str]:
    """To what the process's descriptors point, such as `pipe:[1234]`; empty where they can't be read."""
    return {_link(f"/proc/{pid}/fd/{name}") for name in _names(f"/proc/{pid}/fd")}


def catches(pid: int, signal: int) -> bool:
    """Whether the process has a handler for the signal."""
    return bool(int(status_of(pid, "SigCgt") or "0", 16) >> (signal - 1) & 1)


def status_of(pid: int, name: str) -> str | None:
    """The first word of a line in the status of a process; None where there is no such process, or line."""
    lines = (_read(f"/proc/{pid}/status") or b"").decode(errors="replace").splitlines()
    return next((line.split()[1] for line in lines if line.startswith(f"{name}:")), None)


def listening_ports(pid: int | None = None) -> frozenset[int]:
    """TCP ports on which something listens in the network namespace of a process; of this one where none is named."""
    return frozenset(_listeners("self" if pid is None else pid).values())


def listening_ports_of(pid: int) -> frozenset[int]:
    """TCP ports on which the process listens; empty where its descriptors can't be read."""
    own = links(pid)
    return frozenset(port for inode, port in _listeners().items() if f"socket:[{inode}]" in own)


def tcp_sockets(pid: int | str, state: str) -> Iterator[list[str]]:
    """The fields that the kernel lists of each TCP socket in that state, in the network namespace of a process."""
    for table in ("tcp", "tcp6"):
        lines = (_read(f"/proc/{pid}/net/{table}") or b"").decode().splitlines()[1:]
        yield from (fields for fields in map(str.split, lines) if fields[3] == state)


def _listeners(pid: int | str = "self") -> dict[int, int]:
    """Inode to port."""
    return {int(f[9]): int(f[1].rpartition(":")[2], 16) for f in tcp_sockets(pid, LISTENS)}


def oom_kills() -> int:
    """How often the kernel has killed a process for want of memory since it booted."""
    try:
        counts = _read("/proc/vmstat") or b""
    except CannotLook:  # who ends an attempt only says a little less of its end
        return 0
    count = counts.partition(b"\noom_kill ")[2].partition(b"\n")[0]
    return int(count or 0)


@functools.cache
def _lists_children() -> bool:
    """Whether the kernel was built to list a process's children (CONFIG_PROC_CHILDREN), as nearly all are."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _parent(pid: int) -> int | None:
    text = _read(f"/proc/{pid}/stat")
    return None if text is None else int(text.rpartition(b")")[2].split()[1])


def _read(path: str) -> bytes | None:
    """A file; None where there is none, or none for us."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        _check(error)
        return None


def _names(directory: str) -> list[str]:
    """What is in a directory; empty where there is none, or none for us."""
    try:
        return os.listdir(directory)
    except OSError as error:
        _check(error)
        return []


def _check(error: OSError) -> None:
    if error.errno in WANT:
        raise CannotLook(os.strerror(error.errno)) from None


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError as error:
        _check(error)
        return ""

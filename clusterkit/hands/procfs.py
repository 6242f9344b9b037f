"""What Linux tells about processes."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

LISTENS, ESTABLISHED = "0A", "01"  # states of a TCP socket


def children(pid: int) -> list[int]:
    """Processes whose parent is `pid`; empty where there is no such process."""
    found: list[int] = []
    if not _lists_children():
        return [other for other in all_pids() if _parent(other) == pid]
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
        except OSError:  # the thread ended meanwhile
            continue
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
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0].decode(), int(fields[2]), int(fields[3])


def is_zombie(pid: int) -> bool:
    """Whether the process has ended and waits to be reaped, or is gone."""
    seen = stat(pid)
    return seen is None or seen[0] in "ZX"


def environ(pid: int) -> dict[str, str]:
    """The environment with which the process was started; empty where it can't be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def all_pids() -> Iterator[int]:
    """Every process that can be seen."""
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def links(pid: int) -> set[str]:
    """To what the process's descriptors point, such as `pipe:[1234]`; empty where they can't be read."""
    try:
        return {_link(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return set()


def catches(pid: int, signal: int) -> bool:
    """Whether the process has a handler for the signal."""
    return bool(int(status_of(pid, "SigCgt") or "0", 16) >> (signal - 1) & 1)


def status_of(pid: int, name: str) -> str | None:
    """The first word of a line in the status of a process; None where there is no such process, or line."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
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
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        yield from (fields for fields in map(str.split, lines) if fields[3] == state)


def _listeners(pid: int | str = "self") -> dict[int, int]:
    """Inode to port."""
    return {int(f[9]): int(f[1].rpartition(":")[2], 16) for f in tcp_sockets(pid, LISTENS)}


def oom_kills() -> int:
    """How often the kernel has killed a process for want of memory since it booted."""
    try:
        counts = Path("/proc/vmstat").read_bytes()
    except OSError:
        return 0
    count = counts.partition(b"\noom_kill ")[2].partition(b"\n")[0]
    return int(count or 0)


@functools.cache
def _lists_children() -> bool:
    """Whether the kernel was built to list a process's children (CONFIG_PROC_CHILDREN), as nearly all are."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

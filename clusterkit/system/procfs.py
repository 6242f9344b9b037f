"""Reads /proc. Every function raises CannotLook if it runs out of descriptors or memory.

If a process is gone, or not readable for this user, the functions return None or an empty value.
"""

from __future__ import annotations

import errno
import functools
import ipaddress
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clusterkit.words.errors import CannotLook

OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
STARTS_WITHIN, RETRY_EVERY = 1.0, 0.001  # seconds; the longest wait for an environment, and the time between two reads
KERNEL_THREAD, EXITING = 0x00200000, 0x00000004  # process flags in /proc/PID/stat: PF_KTHREAD, PF_EXITING
# Indexes of fields in /proc/PID/stat, counted from the state.
ARG_START, ARG_END = 45, 46  # addresses
ENV_START, ENV_END = 47, 48  # both are 0 while a program is being started
SESSION = 3
UTIME, STIME, STARTTIME, RSS = 11, 12, 19, 21  # units: clock ticks, clock ticks, clock ticks since boot, pages
CHUNK = 1 << 16  # bytes per read
LISTENS, ESTABLISHED = "0A", "01"  # states of a TCP socket


def children(pid: int) -> list[int]:
    found: list[int] = []
    if not _lists_children():
        return [other for other in all_pids() if parent(other) == pid]
    for thread in _names(f"/proc/{pid}/task"):
        found += map(int, (_read(f"/proc/{pid}/task/{thread}/children") or b"").split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the pids of all descendants of `pid`, parents first."""
    found: list[int] = []
    todo = [pid]
    while todo:
        members = children(todo.pop())
        found += members
        todo += members
    return found


def lineage(pid: int) -> set[int]:
    """Return the pids of a process and of its ancestors in this pid namespace."""
    found = set[int]()
    while pid > 0 and pid not in found:
        found.add(pid)
        pid = parent(pid) or 0
    return found


def stat(pid: int) -> tuple[str, int, int] | None:
    """Return the state letter, process group and session of a process; None if it is gone."""
    fields = _stat(f"/proc/{pid}")
    return None if fields is None else (fields[0].decode(), int(fields[2]), int(fields[3]))


def start_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is gone. This value reveals a reused pid."""
    fields = _stat(f"/proc/{pid}")
    return None if fields is None else int(fields[STARTTIME])


class Usage(NamedTuple):
    """What a process has used: CPU seconds, memory (RSS) in bytes. `age` is in seconds, `start` as of `start_of`."""

    cpu: float
    memory: int
    age: float
    start: int
    session: int


def usage(pid: int) -> Usage | None:
    """Return what a process has used until now; None if it is gone."""
    fields = _stat(f"/proc/{pid}")
    if fields is None:
        return None
    tick = 1 / os.sysconf("SC_CLK_TCK")
    cpu, start = (int(fields[UTIME]) + int(fields[STIME])) * tick, int(fields[STARTTIME])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - start * tick
    return Usage(cpu, int(fields[RSS]) * os.sysconf("SC_PAGE_SIZE"), age, start, int(fields[SESSION]))


def thread_times(pid: int) -> dict[int, tuple[int, int]]:
    """Return for how many nanoseconds each thread has run, and has waited for a CPU.

    The result is empty if the kernel was built without CONFIG_SCHED_INFO.
    """
    found = {}
    for name in _names(f"/proc/{pid}/task"):
        times = thread_time(pid, int(name))
        if times is not None:
            found[int(name)] = times
    return found


def thread_time(pid: int, thread: int) -> tuple[int, int] | None:
    """Return the same for one thread; None if it is gone."""
    fields = (_read(f"/proc/{pid}/task/{thread}/schedstat") or b"").split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 3 else None


def thread_state(pid: int, thread: int) -> str | None:
    fields = _stat(f"/proc/{pid}/task/{thread}")
    return None if fields is None else fields[0].decode()


def is_zombie(pid: int) -> bool:
    """Return whether the process has ended, that is, whether it is a zombie or gone."""
    seen = stat(pid)
    return seen is None or seen[0] in "ZX"


def environ(pid: int) -> dict[str, str]:
    """Return a process's initial environment. Wait for a moment if the process is just starting and has none yet."""
    until = time.monotonic() + STARTS_WITHIN
    while (raw := _read(f"/proc/{pid}/environ")) == b"" and not _is_empty_for_good(pid) and time.monotonic() < until:
        time.sleep(RETRY_EVERY)
    pairs = (item.partition(b"=") for item in (raw or b"").split(b"\0") if item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _is_empty_for_good(pid: int) -> bool:
    """Return whether an empty environment is final: the process has ended, is a kernel thread, or was given none."""
    fields = _stat(f"/proc/{pid}")
    if fields is None or fields[0] in (b"Z", b"X") or int(fields[6]) & (KERNEL_THREAD | EXITING):
        return True
    return fields[ENV_START] == fields[ENV_END] != b"0"


def argv_of(pid: int) -> list[str]:
    return (_read(f"/proc/{pid}/cmdline") or b"").decode(errors="replace").split("\0")


def argument_area() -> tuple[int, int]:
    """Return where this process's command line begins and ends in its memory; (0, 0) if that is unknown."""
    fields = _stat("/proc/self") or []
    if len(fields) <= ARG_END or not 0 < int(fields[ARG_START]) < int(fields[ARG_END]):
        return 0, 0
    return int(fields[ARG_START]), int(fields[ARG_END])


def newest_pid() -> int | None:
    """Return the pid of the process or thread that was started last in this pid namespace; None if it is unknown."""
    fields = (_read("/proc/loadavg") or b"").split()
    return int(fields[4]) if len(fields) == 5 else None


def is_thread(pid: int) -> bool:
    """Return whether this is the number of a thread beside the first thread of its process. /proc opens it, too."""
    return status_of(pid, "Tgid") != str(pid)


def all_pids() -> Iterator[int]:
    return (int(name) for name in _names("/proc") if name.isdecimal())


def links(pid: int) -> set[str]:
    """Return the targets of the process's open descriptors, such as `pipe:[1234]`."""
    return {_link(f"/proc/{pid}/fd/{name}") for name in _names(f"/proc/{pid}/fd")}


def has_handler(pid: int, signal: int) -> bool:
    return bool(int(status_of(pid, "SigCgt") or "0", 16) >> (signal - 1) & 1)


def owner_of(pid: int) -> int | None:
    """Return the user of a process; None if it is gone."""
    uid = status_of(pid, "Uid")
    return None if uid is None else int(uid)


def status_of(pid: int, name: str) -> str | None:
    """Return the first word of the line `name` in /proc/PID/status; None if the process or the line does not exist."""
    lines = (_read(f"/proc/{pid}/status") or b"").decode(errors="replace").splitlines()
    return next((line.split()[1] for line in lines if line.startswith(f"{name}:")), None)


def listening_ports(pid: int | None = None) -> frozenset[int]:
    """Return the TCP ports with a listener in the network namespace of a process, by default of this process."""
    return frozenset(_listeners("self" if pid is None else pid).values())


def listening_ports_of(pid: int, namespace: int | str = "self") -> frozenset[int]:
    """Return the TCP ports on which `pid` itself listens. `namespace` is a process in the network namespace to read."""
    own = links(pid)
    return frozenset(port for inode, port in _listeners(namespace).items() if f"socket:[{inode}]" in own)


def tcp_sockets(pid: int | str, state: str) -> Iterator[list[str]]:
    """For each TCP socket in this state, yield its fields from /proc/PID/net/tcp or /proc/PID/net/tcp6."""
    for table in ("tcp", "tcp6"):
        lines = (_read(f"/proc/{pid}/net/{table}") or b"").decode().splitlines()[1:]
        yield from (fields for fields in map(str.split, lines) if fields[3] == state)


def _listeners(pid: int | str = "self") -> dict[int, int]:
    return {int(f[9]): int(f[1].rpartition(":")[2], 16) for f in tcp_sockets(pid, LISTENS)}


def oom_kills() -> int:
    """Return how many processes the OOM killer has killed since boot."""
    try:
        counts = _read("/proc/vmstat") or b""
    except CannotLook:  # without a count, the outcome of an attempt does not mention memory
        return 0
    count = counts.partition(b"\noom_kill ")[2].partition(b"\n")[0]
    return int(count or 0)


@functools.cache
def _lists_children() -> bool:
    """Return whether the kernel can list a process's children (CONFIG_PROC_CHILDREN), as nearly all kernels can."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def parent(pid: int) -> int | None:
    fields = _stat(f"/proc/{pid}")
    return None if fields is None else int(fields[1])


def _stat(place: str) -> list[bytes] | None:
    """Return the fields in `stat` of a process or thread, beginning with the state; None if it is gone."""
    text = _read(f"{place}/stat")
    return None if text is None else text.rpartition(b")")[2].split()


def _read(path: str) -> bytes | None:
    """Read a file; None if it does not exist or is not readable.

    This is done thousands of times a minute beside training, and `open` makes four more system calls.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _check(error)
        return None
    try:
        found = b""
        while chunk := os.read(descriptor, CHUNK):  # the kernel may return less than there is
            found += chunk
        return found
    except OSError as error:
        _check(error)
        return None
    finally:
        os.close(descriptor)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as error:
        _check(error)
        return []


def _check(error: OSError) -> None:
    if error.errno in OUT_OF_RESOURCES:
        raise CannotLook(os.strerror(error.errno)) from None


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError as error:
        _check(error)
        return ""


class TcpConnection(NamedTuple):
    local: str
    remote: str


def established(pid: int) -> list[TcpConnection]:
    """Return the established TCP connections of a process; empty if its descriptors are not readable."""
    own = links(pid)
    sockets = [f for f in tcp_sockets(pid, ESTABLISHED) if f"socket:[{f[9]}]" in own]
    return sorted(TcpConnection(endpoint(fields[1]), endpoint(fields[2])) for fields in sockets)


def endpoint(text: str) -> str:
    """Convert the kernel's `0100007F:1F90` (32-bit words in this machine's byte order) to `127.0.0.1:8080`."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    host = ipaddress.ip_address(packed)
    if isinstance(host, ipaddress.IPv6Address):
        host = host.ipv4_mapped or host
    return f"{host}:{int(port, 16)}" if host.version == 4 else f"[{host}]:{int(port, 16)}"

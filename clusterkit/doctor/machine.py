"""Collects facts about cores, memory, GPUs and limits; tests ports and the state directory as a run would use them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from clusterkit.backends.local.resources import DESCRIPTORS, DESCRIPTORS_OWN, TASK_MEMORY, gpus_here
from clusterkit.doctor.machine_rules import MachineFacts, PortFacts, StateFacts
from clusterkit.store.cleaning import find_strays
from clusterkit.store.store import state_path
from clusterkit.store.trust import why_untrusted
from clusterkit.system.ports import HOST, claim
from clusterkit.system.procfs import ESTABLISHED, LISTENS, tcp_sockets
from clusterkit.warm.warm_client import all_servers, description
from clusterkit.words.errors import NoPorts, RunDirectoryError

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
PR_GET_CHILD_SUBREAPER = 37
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_RANGE = (32768, 60999)  # Linux's default range of ephemeral ports
TIME_WAIT = "06"  # how /proc/net/tcp shows that a TCP socket is in the state TIME_WAIT
UNLIMITED = 1 << 60  # bytes; in cgroup v1, a limit of at least this size means unlimited


def collect_machine(env: Mapping[str, str]) -> MachineFacts:
    memory = psutil.virtual_memory()
    soft, hard = map(_limit, resource.getrlimit(resource.RLIMIT_NOFILE))
    gpus, files = gpus_here(env), [path.name for path in Path("/dev").glob("nvidia*")]
    return MachineFacts(
        cores=len(os.sched_getaffinity(0)),
        memory=memory.total,
        free=memory.available,
        task_memory=TASK_MEMORY,
        descriptors=None if soft is None else max(0, soft - DESCRIPTORS_OWN),
        descriptors_hard=None if hard is None else max(0, hard - DESCRIPTORS_OWN),
        task_descriptors=DESCRIPTORS,
        kernel=f"{platform.system()} {platform.release()}",
        missing=tuple(_missing()),
        quota=_quota(),
        group_memory=_smallest("memory", "memory.max", "memory.limit_in_bytes"),
        group_tasks=_smallest("pids", "pids.max", "pids.max"),
        threads=_thread_limit(),
        threads_now=_threads(),
        gpus=gpus.names,
        why_no_gpu=gpus.why_none,
        gpu_devices=sum(name.removeprefix("nvidia").isdecimal() for name in files) or int(Path("/dev/dxg").exists()),
    )


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _missing() -> Iterator[str]:
    """Yield a clause for each kernel feature that clusterkit needs, but that this system lacks."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        yield "it has no pidfd_open (Linux 5.3 added it)"
    answer = ctypes.c_int()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0) != 0:
        yield "no process can become a child subreaper"
    for file in ("stat", "environ", "fd"):
        if not os.access(f"/proc/self/{file}", os.R_OK):
            yield f"/proc/self/{file} can't be read"


def _thread_limit() -> int | None:
    """Return the maximum number of threads that this user may have; for root, that of the whole machine."""
    soft = _limit(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    with suppress(OSError, ValueError):
        system = int(Path("/proc/sys/kernel/threads-max").read_text())
        return system if soft is None or os.geteuid() == 0 else min(soft, system)
    return soft


def _threads() -> int:
    """Return the number of threads that count toward the limit returned by `_thread_limit`."""
    count, own, everybody = 0, os.getuid(), os.geteuid() == 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids, threads = process.info["uids"], process.info["num_threads"]
        count += threads or 0 if everybody or (uids is not None and uids.real == own) else 0
    return count


def _quota() -> float | None:
    for group in _groups("cpu"):
        with suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text().split()
            if quota != "max":
                return int(quota) / int(period)
        with suppress(OSError, ValueError):
            whole = int((group / "cpu.cfs_quota_us").read_text())
            if whole > 0:
                return whole / int((group / "cpu.cfs_period_us").read_text())
    return None


def _smallest(controller: str, *files: str) -> int | None:
    """Return the smallest limit in this process's control group and its ancestors; None if there is no limit."""
    found = []
    for group in _groups(controller):
        for name in dict.fromkeys(files):
            with suppress(OSError, ValueError):  # if there is no limit, the file contains "max", which is not a number
                found.append(int((group / name).read_text()))
    return min((limit for limit in found if limit < UNLIMITED), default=None)


def _groups(controller: str) -> Iterator[Path]:
    """Yield the directories of this process's control group and the group's ancestors, for cgroup v2 and v1."""
    with suppress(OSError):
        for line in OWN_GROUPS.read_text().splitlines():
            number, names, path = line.split(":", 2)
            if number == "0" or controller in names.split(","):
                root = GROUPS / (names if number != "0" else "")
                place = root / path.strip("/")
                # In a container, `path` is a path on the host, but the container's own group is mounted at the root.
                yield from (one for one in (place, *place.parents) if one.is_relative_to(root))


def try_state() -> StateFacts:
    """Test the state directory as a run would use it. If it does not exist, test its nearest existing ancestor."""
    home = state_path()
    existing = next((place for place in (home, *home.parents) if place.exists()), Path("/"))
    room = shutil.disk_usage(existing).free if existing.is_dir() else 0
    if untrusted := why_untrusted(home):
        return StateFacts(str(home), None, room, {}, untrusted=untrusted)
    strays = {run: len(pids) for run, pids in find_strays().items()}
    servers = list[str]()
    with suppress(RunDirectoryError):
        servers += [description(server) for _, server in all_servers()]
    return StateFacts(str(home), _unusable(existing), room, strays, servers)


def try_ports() -> PortFacts:
    """Count the free ephemeral ports, and test whether a server can listen on a held port."""
    try:
        first, last = map(int, PORT_RANGE.read_text().split())
    except (OSError, ValueError):
        first, last = USUAL_RANGE
    fields = [found for state in (LISTENS, ESTABLISHED, TIME_WAIT) for found in tcp_sockets("self", state)]
    used = {int(found[1].rpartition(":")[2], 16) for found in fields}
    count = last - first + 1
    return PortFacts(count, count - sum(first <= port <= last for port in used), _not_shared())


def _unusable(directory: Path) -> str | None:
    """Return a clause that explains why runs can't use a directory; None if they can."""
    trial = directory / f".clusterkit-{secrets.token_hex(8)}"
    try:
        trial.mkdir(mode=0o700)
    except OSError as error:
        return f"{directory} is not writable ({error.strerror})"
    try:
        os.mkfifo(trial / "progress", 0o600)
        with (trial / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return f"its file system lacks named pipes, locks or space ({error.strerror})"
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return None


def _not_shared() -> str | None:
    """Return why a server can't listen on a held port, or why clients can't reach it; None if both work."""
    try:
        held = claim()
    except NoPorts:
        return "no port is free"
    with held, socket.socket() as server, socket.socket() as client:
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(held.getsockname())
            server.listen(1)
        except OSError as error:
            return f"a server can't listen on a held port with SO_REUSEPORT ({error.strerror})"
        try:
            client.settimeout(5)
            client.connect((HOST, held.getsockname()[1]))
        except OSError as error:
            return f"clients can't reach a server at {HOST} ({error.strerror or error})"
        with suppress(OSError):
            server.accept()[0].close()
    return None

"""Collects cores, memory, GPUs, and the limits of the system and of the control group."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from clusterkit.backends.local.gpus import gpus_here
from clusterkit.backends.local.preflight import DESCRIPTORS, DESCRIPTORS_OWN, TASK_MEMORY
from clusterkit.doctor.machine_rules import MachineFacts

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
PR_GET_CHILD_SUBREAPER = 37
UNLIMITED = 1 << 60  # bytes; a limit above it is none, as version 1 of control groups writes it


def collect_machine(env: Mapping[str, str]) -> MachineFacts:
    """Collect the facts about this machine, for tasks with this environment."""
    memory = psutil.virtual_memory()
    soft, hard = map(_limit, resource.getrlimit(resource.RLIMIT_NOFILE))
    gpus = gpus_here(env)
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
        gpu_devices=_gpu_devices(),
    )


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _missing() -> Iterator[str]:
    """Yield a clause for each kernel feature that clusterkit needs and this system lacks."""
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
    """Return how many threads this user may have; for root, how many the machine may have."""
    soft = _limit(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    with suppress(OSError, ValueError):
        system = int(Path("/proc/sys/kernel/threads-max").read_text())
        return system if soft is None or os.geteuid() == 0 else min(soft, system)
    return soft


def _threads() -> int:
    """Return the number of threads that count against that limit."""
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
    """Return the smallest limit in this process's control group and those above it."""
    found = []
    for group in _groups(controller):
        for name in dict.fromkeys(files):
            with suppress(OSError, ValueError):  # it is "max" if there is no limit
                found.append(int((group / name).read_text()))
    return min((limit for limit in found if limit < UNLIMITED), default=None)


def _groups(controller: str) -> Iterator[Path]:
    """Yield the directories of this process's control group and those above it, in versions 2 and 1."""
    with suppress(OSError):
        for line in OWN_GROUPS.read_text().splitlines():
            number, names, path = line.split(":", 2)
            if number == "0" or controller in names.split(","):
                root = GROUPS / (names if number != "0" else "")
                place = root / path.strip("/")
                # In a container the path is the host's, while the group itself is mounted at the root.
                yield from (one for one in (place, *place.parents) if one.is_relative_to(root))


def _gpu_devices() -> int:
    """Return the number of GPUs with a device file, also without the driver's tools."""
    names = [path.name for path in Path("/dev").glob("nvidia*")]
    return sum(name.removeprefix("nvidia").isdecimal() for name in names) or int(Path("/dev/dxg").exists())

"""What processes use: memory and processor time, from /proc."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from clusterkit.system import procfs

MEGABYTE = 1024  # in the kilobytes of /proc


def tree(*pids: int) -> set[int]:
    """Processes and everything below them."""
    return {*pids, *(below for pid in pids for below in procfs.descendants(pid))}


def pss(pids: Iterable[int]) -> float:
    """Megabytes, each shared page counted in its share."""
    return sum(_kilobytes(pid, "smaps_rollup", "Pss") for pid in pids) / MEGABYTE


def rss(pid: int) -> float:
    """Megabytes that are resident."""
    return _kilobytes(pid, "status", "VmRSS") / MEGABYTE


def cpu(pid: int) -> float | None:
    """Seconds of processor time of a process itself; None when it is gone."""
    used = procfs.usage(pid)
    return None if used is None else used.cpu


def count_named(pid: int, name: str, known: set[int]) -> int:
    """How many processes below `pid` run the program `name`; `known` ones are not looked at again."""
    for below in procfs.descendants(pid):
        if below not in known:
            with suppress(OSError):
                if Path(f"/proc/{below}/comm").read_text().strip() == name:
                    known.add(below)
    return len(known)


def _kilobytes(pid: int, file: str, field: str) -> int:
    try:
        found = re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{pid}/{file}").read_text(), re.M)
    except OSError:
        return 0
    return int(found.group(1)) if found else 0

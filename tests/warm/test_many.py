"""Hundreds of restarts through one fork server: neither the server nor the supervisor grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from clusterkit.system import procfs
from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

RESTARTS, EARLY, MIDDLE, LATE = 200, 40, 119, 198
NOISE = 256  # KB of memory
RECORD = 1.5  # KB that the supervisor keeps of each restart, for the result and the recovery report
Start = Callable[..., Up]


class Size(NamedTuple):
    """The resources of a process."""

    descriptors: int
    threads: int
    private: int  # KB that no other process shares
    children: int


def size_of(pid: int) -> Size:
    """Read them from /proc."""
    place = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    rollup = [line.split() for line in (place / "smaps_rollup").read_text().splitlines()[1:]]
    private = sum(int(words[1]) for words in rollup if words[0].startswith("Private_"))
    children = [pid for thread in (place / "task").iterdir() for pid in (thread / "children").read_text().split()]
    return Size(len(list((place / "fd").iterdir())), int(status["Threads"]), private, len(children))


def rests(pid: int) -> bool:
    """Whether all threads sleep, and none has run between two reads of /proc."""
    before = procfs.thread_times(pid)
    time.sleep(0.01)
    asleep = all(procfs.thread_state(pid, thread) == "S" for thread in before)
    return asleep and procfs.thread_times(pid) == before


def has_spoken(run: Up, attempt: int) -> bool:
    """Whether the attempt's line is in its log."""
    log = run.run / "tasks" / "worker:0" / f"attempt-{attempt}.log"
    return log.exists() and log.read_bytes().endswith(b"\n")


def test_two_hundred_restarts_through_one_server(up: Start, tmp_path: Path) -> None:
    """Descriptors, threads, children and memory of the server and of the supervisor after 40, 119 and 198 of them.

    Memory grows all the time where it leaks; Python's and the C library's allocators take a megabyte now and then.
    """
    options = ("--restart-budget", RESTARTS, "--restart-backoff", "0", "--quiet", "--preload", "preloads.good")
    run = up(*options, CHILDREN / "forked.py", RESTARTS, EARLY, MIDDLE, LATE, tmp_path)
    sizes = []
    for attempt in (EARLY, MIDDLE, LATE):
        # What it has printed was taken by then, and it waits.
        wait_until(partial(has_spoken, run, attempt), 90, f"attempt {attempt}")
        run.wait_for("Spawned", attempt=attempt)  # what was open for its start is closed by then
        wait_until(partial(rests, run.supervisor), 20, "the supervisor has nothing to do")
        sizes.append({"server": size_of(run.fork_server()), "supervisor": size_of(run.supervisor)})
        (tmp_path / str(attempt)).touch()
    assert run.wait(30) == 0
    print(sizes)
    early, middle, late = sizes
    for who, before in early.items():
        after = late[who]
        assert after[:2] == before[:2], f"{who}: {before}, then {after}"
        assert after.children <= before.children, f"{who}: {before}, then {after}"
        kept = RECORD * (LATE - MIDDLE) if who == "supervisor" else 0
        grown = [middle[who].private - before.private, after.private - middle[who].private]
        assert min(grown) <= NOISE + kept, f"{who}: {grown} KB"
    assert len(run.pids()["worker:0"]) == len(set(run.pids()["worker:0"])) == RESTARTS + 1
    assert len(run.events("Noted", server="ready")) == 1
    assert all(b'"warm": true' in run.log("worker:0", attempt) for attempt in range(1, RESTARTS + 2))

"""Descriptors used up: that nothing can be seen is never taken for that nothing is there."""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterkit.backends.local.family import AttemptProcess, ProcessFamily
from clusterkit.backends.local.stacks import dump_for, request_dump
from clusterkit.backends.local.sweeper import Sweeper
from clusterkit.store.cleaning import find_strays
from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs, sweep
from clusterkit.system.process import AttemptChild
from clusterkit.system.sweep import ProcessesSurvived, kill_and_wait, kill_until_gone
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Crashed, Swept
from clusterkit.words.model import Task, TaskType
from tests.support import ROOT, no_descriptors

pytestmark = [pytest.mark.process, pytest.mark.slow]

SELF = os.getpid()
LOOKS: list[Callable[[], object]] = [
    lambda: procfs.children(SELF),
    lambda: procfs.descendants(SELF),
    lambda: procfs.stat(SELF),
    lambda: procfs.is_zombie(SELF),
    lambda: procfs.environ(SELF),
    lambda: procfs.argv_of(SELF),
    lambda: list(procfs.all_pids()),
    lambda: procfs.links(SELF),
    lambda: procfs.has_handler(SELF, signal.SIGTERM),
    lambda: procfs.status_of(SELF, "VmRSS"),
    lambda: procfs.listening_ports(),
    lambda: procfs.listening_ports_of(SELF),
    find_strays,
]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until the test is over, or kills it."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", range(len(LOOKS)))
def test_no_look_answers_that_nothing_is_there(number: int) -> None:
    """An empty answer would let a run end with its tasks alive."""
    with no_descriptors(), pytest.raises(CannotLook, match="Too many open files"):
        LOOKS[number]()
    LOOKS[number]()


def test_a_process_that_is_gone_is_no_want_of_descriptors() -> None:
    """Nor one that is another user's."""
    process = subprocess.Popen(["true"])
    process.wait()
    assert procfs.children(process.pid) == []
    assert procfs.stat(process.pid) is None
    assert procfs.environ(process.pid) == {}


def test_a_live_run_is_never_taken_for_a_dead_one(tmp_path: Path) -> None:
    """Its tasks would be killed as strays."""
    with (tmp_path / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with no_descriptors(), pytest.raises(CannotLook):
            RunDirectory(tmp_path).is_live()
        assert RunDirectory(tmp_path).is_live()


def test_what_can_be_seen_again_is_ended(child: subprocess.Popen[bytes]) -> None:
    """Descriptors are used up for a moment only."""
    blind = [None] * 3

    def find() -> list[int]:
        if blind:
            blind.pop()
            raise CannotLook("Too many open files")
        return [] if procfs.is_zombie(child.pid) else [child.pid]

    assert kill_until_gone(find) == 1


def test_what_can_not_be_seen_for_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that all is well."""
    monkeypatch.setattr(sweep, "KILL_TIMEOUT", 0.2)
    with no_descriptors(), pytest.raises(ProcessesSurvived, match="are left: Too many open files") as caught:
        kill_until_gone(lambda: procfs.children(SELF))
    assert (caught.value.pids, caught.value.unseen) == ((), "Too many open files")


def test_a_process_that_can_not_be_waited_for_is_not_gone(child: subprocess.Popen[bytes]) -> None:
    """Its descriptor is wanting, not the process."""
    with no_descriptors(), pytest.raises(CannotLook):
        kill_and_wait([child.pid], time.monotonic() + 5)
    assert not procfs.is_zombie(child.pid)
    kill_and_wait([child.pid], time.monotonic() + 5)
    assert procfs.is_zombie(child.pid)


def test_the_sweeper_tells_that_it_can_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some tries; the run fails then, and its task is not started beside an old process."""
    monkeypatch.setattr(sweep, "KILL_TIMEOUT", 0.2)
    family, swept = ProcessFamily("run-1"), queue.SimpleQueue[Swept | Crashed]()
    process = subprocess.Popen(["true"], start_new_session=True)
    first = AttemptChild(process.pid, os.pidfd_open(process.pid), "pipe:[none]", 0, process)
    family._leaders[first.pid] = first
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    sweeper = Sweeper(family, swept.put)
    worker = Task(TaskType.WORKER, 0)
    try:
        with no_descriptors():
            sweeper.sweep(AttemptProcess(worker, 1, first))
            assert swept.get(timeout=10) == Swept(worker, 1, unseen="Too many open files")
        sweeper.sweep(AttemptProcess(worker, 1, first))
        assert swept.get(timeout=10) == Swept(worker, 1)
    finally:
        sweeper.stop()


def test_stacks_that_can_not_be_asked_for_are_none(tmp_path: Path) -> None:
    """The loop asks for them, and must not end for that."""
    (tmp_path / "stacks").mkdir()
    with no_descriptors():
        request_dump(dump_for(RunDirectory(tmp_path), Task.parse("worker:0"), 1, "why"), SELF)
    assert list((tmp_path / "stacks").iterdir()) == []


LOST = """
import os, signal
from clusterkit.supervisor import guardian
from tests.support import no_descriptors

guardian.KILL_TIMEOUT = 0.2
if (pid := os.fork()) == 0:
    os.kill(os.getpid(), signal.SIGKILL)
held = os.dup(1)
os.close(2)
with no_descriptors():
    guardian.wait_for_supervisor(pid, held, lambda how, left: print(how, left))
"""


def test_the_guardian_tells_of_a_lost_supervisor_all_the_same() -> None:
    """Without descriptors and without a terminal; the result is written by what is called here."""
    command = [sys.executable, "-c", LOST]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    assert told.stdout == b"was killed by SIGKILL 0\n"

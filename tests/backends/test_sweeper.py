"""The sweeper: one look serves all attempts that ended meanwhile, and what one left behind keeps no other waiting."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.local.family import AttemptProcess, ProcessFamily
from clusterkit.backends.local.sweeper import Sweeper
from clusterkit.system import procfs
from clusterkit.system.process import AttemptChild, Helper, on_child_end
from clusterkit.words.model import Task, TaskType
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]
MANY = 40
# A daemon that says nothing of where it comes from: another session, no environment, every descriptor closed.
DAEMON = "setsid env -i sleep 1000 </dev/null >/dev/null 2>&1 &"


@pytest.fixture
def swept() -> queue.SimpleQueue[Any]:
    """What the sweeper posts."""
    return queue.SimpleQueue()


@pytest.fixture
def family() -> ProcessFamily:
    """A family without children."""
    return ProcessFamily("run-1")


@pytest.fixture
def sweeper(family: ProcessFamily, swept: queue.SimpleQueue[Any]) -> Iterator[Sweeper]:
    """A sweeper of that family."""
    made = Sweeper(family, swept.put)
    yield made
    made.stop()


def begun(family: ProcessFamily, index: int, *command: str) -> AttemptProcess:
    """An attempt that runs a command."""
    with family._lock:
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        child = AttemptChild(process.pid, os.pidfd_open(process.pid), f"pipe:[none {index}]", 0, process)
        family._leaders[child.pid] = child
    return AttemptProcess(Task(TaskType.WORKER, index), 1, child)


def ended(family: ProcessFamily, index: int, *command: str) -> AttemptProcess:
    """An attempt that has run a command to its end, not reaped."""
    return over(begun(family, index, *command))


def over(one: AttemptProcess) -> AttemptProcess:
    """The attempt, when its first process has ended."""
    os.waitid(os.P_PID, one.child.pid, os.WEXITED | os.WNOWAIT)
    return one


def killed(one: AttemptProcess) -> AttemptProcess:
    """The attempt, whose first process is killed."""
    os.kill(one.child.pid, signal.SIGKILL)
    return over(one)


def test_one_look_serves_all_that_ended(family: ProcessFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look lists every child, so that a look for each would cost the more the more tasks there are."""
    all_ended = [ended(family, index, "true") for index in range(MANY)]
    looks: list[int] = []
    children = procfs.children

    def counting(pid: int) -> list[int]:
        looks.append(pid)
        return children(pid)

    monkeypatch.setattr(procfs, "children", counting)
    assert family.reap_clean(all_ended) == []
    assert len(looks) == 1
    assert not {one.child.pid for one in all_ended} & set(children(os.getpid()))


@pytest.mark.usefixtures("subreaper")
def test_what_one_left_behind_is_killed_and_counted(
    family: ProcessFamily, sweeper: Sweeper, swept: queue.SimpleQueue[Any]
) -> None:
    """The others are reaped at once."""
    leaves = "import subprocess; subprocess.Popen(['sleep', '1000'])"
    messy, clean = ended(family, 0, sys.executable, "-c", leaves), ended(family, 1, "true")
    sweeper.sweep(messy)
    sweeper.sweep(clean)
    posted = {event.task.index: event.left for event in (swept.get(timeout=20), swept.get(timeout=20))}
    assert posted == {0: 1, 1: 0}
    assert not {messy.child.pid, clean.child.pid} & set(procfs.children(os.getpid()))


@pytest.mark.usefixtures("subreaper")
def test_orphans_are_reaped_while_their_attempt_lives(family: ProcessFamily, sweeper: Sweeper) -> None:
    """As init would do it; first processes of attempts, which something waits for, are left alone."""
    before = set(procfs.children(os.getpid()))  # of tests that this process ran earlier
    undo = on_child_end(sweeper.child_ended.ring)
    try:
        over(first := ended(family, 0, "true"))
        busy = begun(family, 1, "sh", "-c", "for i in $(seq 40); do (sleep 0.01 &); done; echo; exec sleep 1000")
        wait_until(lambda: procfs.argv_of(busy.child.pid)[0] == "sleep", 20, "it has started all of them")
        left = {first.child.pid, busy.child.pid}
        wait_until(lambda: set(procfs.children(os.getpid())) - before == left, 20, "only the attempts are left")
        assert procfs.stat(first.child.pid) is not None
    finally:
        undo()
        assert family.reap_clean([first, killed(busy)]) == []


@pytest.mark.usefixtures("subreaper")
def test_a_daemon_without_any_mark_is_killed_with_the_task_that_had_begun_before(family: ProcessFamily) -> None:
    """Another that began after it can't have started it."""
    messy = ended(family, 0, "sh", "-c", DAEMON)
    wait_until(lambda: daemons(family), 20, "the daemon runs")
    started = procfs.start_of(daemons(family)[0]) or 0
    tick = os.sysconf("SC_CLK_TCK")
    wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) * tick > started + 1, 20, "the clock of /proc moves")
    later = begun(family, 1, "sleep", "1000")
    assert family.reap_clean([messy]) == [messy]
    assert family.sweep(messy) == 1
    assert daemons(family) == []
    assert family.reap_clean([killed(later)]) == []


@pytest.mark.usefixtures("subreaper")
def test_a_daemon_without_any_mark_lives_as_long_as_a_task_that_may_have_started_it(family: ProcessFamily) -> None:
    """To kill it sooner could kill another task's; this process's own helpers are no daemons."""
    before = set(procfs.children(os.getpid()))
    helper = Helper(lambda _: ["sleep", "1000"], Path(os.devnull), {})
    other = begun(family, 1, "sleep", "1000")
    messy = ended(family, 0, "sh", "-c", DAEMON)
    wait_until(lambda: daemons(family), 20, "the daemon runs")
    assert family.reap_clean([messy]) == []
    assert len(daemons(family)) == 1
    assert family.reap_clean([killed(other)]) == [other]
    assert family.sweep(other) == 1
    assert set(procfs.children(os.getpid())) - before == {helper.pid}
    helper.end(0.0)
    helper.channel.close()


def daemons(family: ProcessFamily) -> list[int]:
    """The adopted processes."""
    return [one.pid for one in family._orphans.living(family._leaders) if procfs.argv_of(one.pid)[0] == "sleep"]

"""The sweeper: one look serves all attempts that ended meanwhile, and what one left behind keeps no other waiting."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from clusterkit.backends.local.family import Ended, Family
from clusterkit.backends.local.sweeper import Sweeper
from clusterkit.system import procfs
from clusterkit.system.process import Child
from clusterkit.words.model import Task, TaskType

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]
MANY = 40


@pytest.fixture
def swept() -> queue.SimpleQueue[Any]:
    """What the sweeper posts."""
    return queue.SimpleQueue()


@pytest.fixture
def family() -> Family:
    """A family without children."""
    return Family("run-1")


@pytest.fixture
def sweeper(family: Family, swept: queue.SimpleQueue[Any]) -> Iterator[Sweeper]:
    """A sweeper of that family."""
    made = Sweeper(family, swept.put)
    yield made
    made.stop()


def ended(family: Family, index: int, *command: str) -> Ended:
    """An attempt that has run a command to its end, not reaped."""
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    child = Child(process.pid, os.pidfd_open(process.pid), f"pipe:[none {index}]", 0, process)
    family._leaders[child.pid] = child
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return Ended(Task(TaskType.WORKER, index), 1, child)


def test_one_look_serves_all_that_ended(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
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
    family: Family, sweeper: Sweeper, swept: queue.SimpleQueue[Any]
) -> None:
    """The others are reaped at once."""
    leaves = "import subprocess; subprocess.Popen(['sleep', '1000'])"
    messy, clean = ended(family, 0, sys.executable, "-c", leaves), ended(family, 1, "true")
    sweeper.sweep(messy)
    sweeper.sweep(clean)
    posted = {event.task.index: event.left for event in (swept.get(timeout=20), swept.get(timeout=20))}
    assert posted == {0: 1, 1: 0}
    assert not {messy.child.pid, clean.child.pid} & set(procfs.children(os.getpid()))

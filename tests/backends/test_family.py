"""The family: attempts that have begun to start, several at a time, and the lock that hides them meanwhile."""

from __future__ import annotations

import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.local.family import AttemptProcess, ProcessFamily
from clusterkit.job.plan import Start, TaskPlan
from clusterkit.system.process import AttemptChild
from clusterkit.warm.fork_client import ForkServer, Launch, begin
from clusterkit.warm.servable import Preload
from clusterkit.words.model import ProgramKind, Task, TaskType

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60), pytest.mark.usefixtures("subreaper")]

MANY = 20  # more than the server takes before it answers
SLEEP = TaskPlan(Task(TaskType.WORKER, 0), ProgramKind.COMMAND, sys.executable, "sleep", ("60",), "/", {})
SCRIPT = TaskPlan(Task(TaskType.WORKER, 0), ProgramKind.MODULE, sys.executable, "this", (), "/", {})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    """A small fork server."""
    posted = queue.SimpleQueue[Any]()
    launch = Launch(sys.executable, dict(os.environ), Preload(tensorflow=False), str(tmp_path / "server.log"))
    made = ForkServer(begin(launch), posted.put, 1)
    assert "is ready" in str(posted.get(timeout=20))
    yield made
    made.stop()


@pytest.fixture
def output() -> Iterator[int]:
    """The end of a pipe that all tasks write to."""
    reader, writer = os.pipe()
    yield writer
    os.close(reader)
    os.close(writer)


def end(family: ProcessFamily, children: list[AttemptChild]) -> None:
    """Kill and reap them."""
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
        select.select([child.pidfd], [], [], 10)
    ended = [AttemptProcess(Task(TaskType.WORKER, number), 1, child) for number, child in enumerate(children)]
    assert family.reap_clean(ended) == []


@pytest.mark.parametrize("plan", [SLEEP, SCRIPT], ids=["command", "program"])
def test_many_that_are_asked_for_at_once(server: ForkServer, output: int, plan: TaskPlan) -> None:
    """Each is a process of its own, which leads its group."""
    family = ProcessFamily("run-1")
    begun = [family.begin(Start(plan, dict(os.environ), os.dup(output), os.dup(output)), server) for _ in range(MANY)]
    children = [family.finish(one) for one in begun]
    assert len({child.pid for child in children}) == MANY
    assert all(child.process is None for child in children), "all are forked"
    assert {os.getpgid(child.pid) for child in children} == {child.pid for child in children}
    end(family, children)
    for one in begun:
        os.close(one.start.output)
        os.close(one.start.stacks)


def test_a_server_that_dies_meanwhile(server: ForkServer, output: int) -> None:
    """All start cold, and nobody looks for orphans before they are known."""
    family, looked = ProcessFamily("run-1"), threading.Event()
    os.kill(server._pid, signal.SIGSTOP)  # it has read none of the requests when it dies
    begun = [family.begin(Start(SLEEP, dict(os.environ), output, os.dup(output)), server) for _ in range(MANY)]

    def look() -> None:
        family.reap_clean([])
        looked.set()

    looking = threading.Thread(target=look)
    looking.start()
    os.kill(server._pid, signal.SIGKILL)
    children = [family.finish(one) for one in begun[:-1]]
    assert not looked.is_set()
    children.append(family.finish(begun[-1]))
    looking.join(10)
    assert looked.is_set()
    assert len({child.pid for child in children}) == MANY
    assert all(child.process is not None for child in children)
    end(family, children)
    for one in begun:
        os.close(one.start.stacks)

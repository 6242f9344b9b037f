"""What tasks use, with all processes that they have started, is counted without searching for these each time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from clusterkit.system import meter as measuring
from clusterkit.system import procfs
from clusterkit.system.meter import Meter
from tests.histories import task
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

NAME = task("worker:0")
# Starts a child, or a thread, for each line that it reads, and says when it runs.
PARENT = """
import subprocess, sys, threading
children = []
for line in sys.stdin:
    if line == "thread\\n":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif line == "end\\n":
        children.pop().communicate(b"x")
    else:
        code = "import sys, subprocess; rows = bytearray(30_000_000); print(flush=True); sys.stdin.read(1)"
        children.append(subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1))
        children[-1].stdout.readline()
    print(len(children), flush=True)
"""


class Parent:
    """A task that starts and ends processes and threads as it is told."""

    def __init__(self) -> None:
        words = [sys.executable, "-c", PARENT]
        self.process = subprocess.Popen(words, stdin=-1, stdout=-1, start_new_session=True, text=True)
        self.pid = self.process.pid

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline()


@contextmanager
def parent() -> Iterator[Parent]:
    made = Parent()
    try:
        yield made
    finally:
        for pid in procfs.descendants(made.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        made.process.kill()
        made.process.communicate()


def memory(meter: Meter, pid: int) -> int:
    return meter.sample({NAME: pid})[NAME][1]


def all_memory(pid: int) -> int:
    """The same by a search."""
    return sum(used.memory for one in (pid, *procfs.descendants(pid)) if (used := procfs.usage(one)) is not None)


def test_processes_that_come_and_go_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a search would find, but there is one search only, and threads are not counted as processes."""
    searches: list[int] = []
    search = procfs.descendants

    def counted(pid: int) -> list[int]:
        searches.append(pid)
        return search(pid)

    monkeypatch.setattr(measuring, "MOST_NEW", 100_000)  # other tests start processes, too
    with parent() as made:
        made.tell("child")
        meter = Meter()
        monkeypatch.setattr(procfs, "descendants", counted)
        for word in ("thread", "child", "thread", "child", "end", "end", "child"):
            before = memory(meter, made.pid)
            made.tell(word)
            after = memory(meter, made.pid)
            assert (after > before + 20e6) is (word == "child"), word
            assert (after < before - 20e6) is (word == "end"), word
        assert searches == [made.pid]
        monkeypatch.undo()
        assert memory(meter, made.pid) == pytest.approx(all_memory(made.pid), rel=0.05)


@pytest.mark.parametrize("newest", [None, 3, 1 << 40])
def test_unless_new_processes_are_known_there_is_a_search(monkeypatch: pytest.MonkeyPatch, newest: int | None) -> None:
    """If pids have begun again, if there are many, or if the kernel does not say which one is the newest."""
    with parent() as made:
        meter = Meter()
        before = memory(meter, made.pid)
        made.tell("child")
        monkeypatch.setattr(procfs, "newest_pid", lambda: newest)
        assert memory(meter, made.pid) > before + 20e6


def test_a_task_that_is_gone_uses_nothing() -> None:
    """And another one that has its place is measured anew."""
    meter = Meter()
    with parent() as made:
        made.tell("child")
        assert memory(meter, made.pid) > 20e6
    wait_until(lambda: procfs.stat(made.pid) is None, 20, "it is gone")
    assert meter.sample({NAME: made.pid}) == {}
    with parent() as other:
        assert meter.sample({NAME: other.pid}).keys() == {NAME}
    assert meter.sample({}) == {}


def test_the_newest_pid_is_known() -> None:
    """A process that is started now has a pid that is not beyond it."""
    before = procfs.newest_pid()
    child = subprocess.Popen(["/bin/true"])
    after = procfs.newest_pid()
    child.wait()
    assert before is not None
    assert after is not None
    assert before < child.pid <= after or after < before  # pids may have begun again

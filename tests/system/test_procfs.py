"""What is read of processes, at moments at which Linux shows only a part of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from clusterkit.system import procfs
from tests.support import wait_until

pytestmark = pytest.mark.process
READS = 3000
KERNELS = [pid for pid in (2,) if procfs.status_of(pid, "Name") == "kthreadd"]  # containers have none


@pytest.fixture
def restless(tmp_path: Path) -> Iterator[int]:
    """A process that does nothing but start its program again."""
    script = tmp_path / "again.sh"
    script.write_text(f"exec /bin/sh {script}\n")
    process = subprocess.Popen(["/bin/sh", script], env={"MARK": "here"})
    yield process.pid
    process.kill()
    process.wait()


def test_a_process_that_starts_a_program_has_its_environment(restless: int) -> None:
    """Its arguments and its environment are empty for a moment, in which it could not be found and was left behind."""
    assert [seen for _ in range(READS) if (seen := procfs.environ(restless)).get("MARK") != "here"] == []


def test_an_empty_environment_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that started with none, of one that is over, of the kernel's, and of one that never was."""
    words = [sys.executable, "-Ic", "print(flush=True); input()"]
    bare = subprocess.Popen(words, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert bare.stdout is not None
    bare.stdout.readline()  # it is beyond the moment of its start
    over = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, over.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(procfs, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("waits")))
    try:
        for _ in range(20):
            assert [procfs.environ(pid) for pid in (bare.pid, over.pid, *KERNELS, 1 << 22)] == [{}] * (3 + len(KERNELS))
    finally:
        bare.kill()
        bare.wait()
        over.wait()


def test_what_a_process_uses_is_what_psutil_says() -> None:
    """CPU, memory and age; nothing of one that is gone."""
    child = subprocess.Popen([sys.executable, "-c", "sum(range(3_000_000)); input()"], stdin=subprocess.PIPE)
    try:
        other = psutil.Process(child.pid)
        wait_until(lambda: other.status() == psutil.STATUS_SLEEPING and other.cpu_times().user > 0.01, 20, "it waits")
        seen = procfs.usage(child.pid)
        assert seen is not None
        cpu, memory, age, start, session = seen
        assert session == os.getsid(child.pid)
        assert start == procfs.start_of(child.pid)
        assert cpu == pytest.approx(other.cpu_times().user + other.cpu_times().system)
        assert memory == pytest.approx(other.memory_info().rss, rel=0.1)
        assert age == pytest.approx(time.time() - other.create_time(), abs=2)
    finally:
        child.communicate(b"\n", timeout=20)
    assert procfs.usage(child.pid) is None

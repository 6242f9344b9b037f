"""A kill for want of memory is told apart from every other SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from clusterkit.system import procfs
from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Up]
LIMIT = 50_000_000
HUNGRY = CHILDREN / "hungry.py"


@pytest.fixture
def tight() -> Iterator[Path]:
    """A control group with little memory, of version 1 or 2, whichever can be had here."""
    name = f"clusterkit-test-{os.getpid()}"
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root, name)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                (group / limit).write_text(str(LIMIT))
                yield group
                return
        finally:
            wait_until(partial(_removed, group), 10, f"{group} is empty")
    pytest.skip("no control group with a memory limit can be made here")


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def test_a_task_that_the_kernel_kills_for_its_memory_is_said_to_be_so(up: Start, tight: Path) -> None:
    """In the result and on the console."""
    run = up("--restart", "never", HUNGRY, tight)
    assert run.wait(30) == 1
    assert run.result["cause"]["exit"]["out_of_memory"] is True
    assert run.result["attempts"][0]["exit"]["out_of_memory"] is True
    assert "worker:0 was killed by the kernel, out of memory (SIGKILL)" in run.output


def test_another_kill_is_not_even_while_the_kernel_kills_others(up: Start, tight: Path) -> None:
    """That some process died for want of memory during the attempt does not mean that this one did."""
    run = up("--restart", "never", CHILDREN / "roles.py", "--steps", "100000")
    run.wait_for("Progressed", deadline=20)
    before = procfs.oom_kills()
    assert subprocess.call([sys.executable, HUNGRY, tight], stdout=subprocess.DEVNULL) == -signal.SIGKILL
    assert procfs.oom_kills() > before
    run.kill("worker:0")
    assert run.wait(20) == 1
    assert run.result["cause"]["exit"]["signal"] == signal.SIGKILL
    assert run.result["cause"]["exit"]["out_of_memory"] is False
    assert "worker:0 was killed by SIGKILL" in run.output

"""The injector at work on tiny children: out of memory, and with what they had again once they are healed."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from clusterkit.system import procfs
from clusterkit.words.events import FaultTook
from tests.faults.cast import Cast
from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]
DATA = resource.RLIMIT_DATA


def asks(process: subprocess.Popen[bytes]) -> str:
    """Let greedy.py take 30 MB more; return what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return process.stdout.readline().decode().strip()


def test_no_memory_is_left_to_a_task_until_it_is_healed(cast: Cast) -> None:
    """The task keeps the memory that it has."""
    process = cast.starts(CHILDREN / "greedy.py")
    assert asks(process) == "got"
    took = cast.inject(1, "memory worker:0")
    assert took.done
    assert took.detail.startswith("worker:0 is limited to the ")
    assert asks(process) == "MemoryError"
    cast.injector.heal(1)
    assert asks(process) == "got"
    assert resource.prlimit(process.pid, DATA) == resource.getrlimit(DATA)


def test_a_limit_leaves_room_up_to_it(cast: Cast) -> None:
    """Two times 30 MB fit into 90 MB beside the interpreter's memory, but a fourth time does not."""
    process = cast.starts(CHILDREN / "greedy.py")
    took = cast.inject(1, "memory worker:0 limit=90MB")
    assert took.detail.startswith("worker:0 is limited to 90 MB of memory; it has ")
    assert [asks(process) for _ in range(4)] == ["got", "got", "MemoryError", "MemoryError"]


def test_processes_that_a_task_has_forked_are_limited_and_healed_too(cast: Cast) -> None:
    """Here the child uses the memory while its parent waits."""
    process = cast.starts(CHILDREN / "greedy.py", "fork")
    assert asks(process) == "got"
    cast.inject(1, "memory worker:0")
    assert asks(process) == "MemoryError"
    cast.injector.heal(1)
    assert asks(process) == "got"
    (child,) = procfs.children(process.pid)
    assert resource.prlimit(child, DATA) == resource.getrlimit(DATA)


def test_the_smallest_limit_counts_until_it_is_healed(cast: Cast) -> None:
    """In whatever order the faults are healed, the last one restores the usual limit."""
    process = cast.starts(CHILDREN / "greedy.py")
    cast.inject(1, "memory worker:0 limit=1GB")
    cast.inject(2, "memory worker:0")
    assert asks(process) == "MemoryError"
    cast.injector.heal(1)
    assert asks(process) == "MemoryError"
    cast.injector.heal(2)
    assert asks(process) == "got"
    assert resource.prlimit(process.pid, DATA) == resource.getrlimit(DATA)


def test_tasks_that_can_not_be_limited(cast: Cast) -> None:
    """A task without a process; and an attempt that has ended needs no healing."""
    assert cast.inject(1, "memory worker:0") == FaultTook(1, "worker:0 has no process", False)
    cast.starts(CHILDREN / "greedy.py")
    assert cast.inject(2, "memory worker:0").done
    cast.ends()
    process = cast.starts(CHILDREN / "greedy.py")
    assert asks(process) == "got"
    cast.injector.heal(2)
    assert asks(process) == "got"


@pytest.mark.timeout(30)
def test_a_process_that_may_not_be_limited_is_left_out(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task may have started sudo, for example; the other processes are limited, and the injection ends."""
    process = cast.starts(CHILDREN / "greedy.py", "fork")
    (child,) = procfs.children(process.pid)
    prlimit = resource.prlimit

    def refusing(pid: int, *others: Any) -> tuple[int, int]:
        if pid == child:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return prlimit(pid, *others)

    monkeypatch.setattr(resource, "prlimit", refusing)
    assert cast.inject(1, "memory worker:0 limit=1GB").done
    monkeypatch.undo()
    assert [resource.prlimit(pid, DATA)[0] for pid in (process.pid, child)] == [10**9, resource.getrlimit(DATA)[0]]


def test_a_stop_heals_what_is_limited(cast: Cast) -> None:
    """Every process has its usual limit again."""
    process = cast.starts(CHILDREN / "greedy.py")
    cast.inject(1, "memory worker:0")
    cast.inject(2, "memory worker:0 limit=1MB")
    cast.injector.stop()
    assert asks(process) == "got"


def test_faults_of_a_run_are_injected_at_their_steps_and_healed(up: Callable[..., Up], tmp_path: Path) -> None:
    """A step is reported within a fraction of a second, and the tasks run normally after their faults."""
    faults = ("slow worker:1 share=30% for=500ms @ step=10", "memory worker:0 for=300ms @ step=15")
    words = [word for fault in faults for word in ("--fault", fault)]
    run = up("--workers", "2", *words, CHILDREN / "step_by_step.py", "30", tmp_path)
    run.wait_for_step(1, task="worker:1")  # both have a process to inject them into
    for step in range(1, 31):
        run.wait_for_step(step, task="worker:0")
        if step == 30:
            run.wait_for("FaultHealed", count=2)
        (tmp_path / str(step)).touch()
    assert run.wait(40) == 0
    reported = [event["m"] for event in run.events("Progressed", task="worker:0")]
    assert median(late - early for early, late in pairwise(reported)) < 0.5  # of one a second it would be 1
    assert [event["step"] for event in run.events("FaultInjected")] == [10, 15]
    took = run.events("FaultTook")
    assert [event["done"] for event in took] == [True, True]
    assert took[0]["detail"] == "worker:1 can run at most 30 % of the time"
    assert {event["number"] for event in run.events("FaultHealed")} == {1, 2}

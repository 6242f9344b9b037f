"""Tasks that are slowed get their share of the time, and all of it again once they are healed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from clusterkit.system import procfs
from clusterkit.system.process import signal_group
from clusterkit.words.events import FaultTook
from tests.faults.cast import WORKER, Cast
from tests.support import CHILDREN, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]


def seconds_of(pid: int) -> tuple[float, float]:
    """The seconds that a process has run on a processor, and that it has waited for one while runnable."""
    had, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(had) / 1e9, int(waited) / 1e9


def shares_of(pid: int, during: float) -> tuple[float, float]:
    """The share of a core that a process gets in the next seconds, and that it would get on an idle machine."""
    had, waited = seconds_of(pid)
    began = time.monotonic()
    threading.Event().wait(during)
    had_then, waited_then = seconds_of(pid)
    passed = time.monotonic() - began
    return (had_then - had) / passed, (had_then + waited_then - had - waited) / passed


def share_of(pid: int, during: float) -> float:
    """The share of a core that a process would get on an idle machine."""
    return shares_of(pid, during)[1]


def wakeups(thread: threading.Thread) -> list[str]:
    """How often a thread has gone to sleep so far."""
    lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    return [line for line in lines if "ctxt_switches" in line]


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped at this moment."""
    return (procfs.stat(pid) or "?")[0] == "T"


def looks_at(pid: int) -> set[bool]:
    """The states, stopped or not, in which a process is found 100 times within two periods."""
    looks = set()
    for _ in range(100):
        looks.add(is_stopped(pid))
        threading.Event().wait(0.002)
    return looks


def runs_on(pid: int) -> bool:
    """Whether a healed process keeps running."""
    return looks_at(pid) == {False}


def stays_stopped(pid: int) -> bool:
    """Whether a process stays stopped after the signal has reached it."""
    wait_until(lambda: is_stopped(pid), 5, "it is stopped")
    return looks_at(pid) == {True}


def busy(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Start a task that uses a whole core; return its pid."""
    monkeypatch.chdir(tmp_path)
    return cast.starts(CHILDREN / "busy.py", "spin").pid


def test_a_slowed_task_gets_its_share_of_a_core(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets a fifth of a core, adjusted for other load on the machine."""
    pid = busy(cast, tmp_path, monkeypatch)
    took = cast.inject(1, "slow worker:0 share=20%")
    assert took == FaultTook(1, "worker:0 can run at most 20 % of the time", True)
    shares: list[tuple[float, float]] = []

    def fair() -> bool:
        shares.append(shares_of(pid, 1.0))
        had, could = shares[-1]
        return had <= 0.28 and abs(could - 0.2) <= 0.08

    wait_until(fair, 20, lambda: f"a share of 0.2; there were {shares}")
    cast.injector.heal(1)
    assert runs_on(pid)
    wait_until(lambda: share_of(pid, 0.5) > 0.9, 20, "a healed task takes what it can get")


def test_the_smallest_share_counts_until_it_is_healed(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two faults slow one task, and each is healed by its own number."""
    pid = busy(cast, tmp_path, monkeypatch)
    cast.inject(1, "slow worker:0 share=90%")
    cast.inject(2, "slow worker:0 share=5%")
    wait_until(lambda: share_of(pid, 1.0) < 0.2, 20, "the smaller share counts")
    cast.injector.heal(2)
    wait_until(lambda: share_of(pid, 0.5) > 0.3, 20, "the larger share counts")
    cast.injector.heal(1)
    assert runs_on(pid)


def test_a_task_that_others_stop_stays_stopped(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays stopped even if the slow fault is healed meanwhile; when it is resumed, it is slowed again."""
    pid = busy(cast, tmp_path, monkeypatch)
    child = cast.children[WORKER]
    cast.inject(1, "slow worker:0 share=50%")
    cast.throttle.signal(WORKER, child, signal.SIGSTOP)
    assert stays_stopped(pid)
    cast.throttle.signal(WORKER, child, signal.SIGCONT)
    wait_until(lambda: is_stopped(pid), 5, "it is stopped for half of the time")
    wait_until(lambda: not is_stopped(pid), 5, "and runs for the other half")
    cast.throttle.signal(WORKER, child, signal.SIGSTOP)
    cast.injector.heal(1)
    assert stays_stopped(pid)
    cast.throttle.signal(WORKER, child, signal.SIGCONT)
    assert runs_on(pid)


def test_the_next_attempt_of_a_slowed_task_is_slow_too(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault lasts until it is healed; between two attempts there is no process to signal."""
    busy(cast, tmp_path, monkeypatch)
    cast.inject(1, "slow worker:0 share=20%")
    cast.ends()
    pid = busy(cast, tmp_path, monkeypatch)
    wait_until(lambda: is_stopped(pid), 5, "the second attempt is stopped for a part of the time")
    cast.ends()
    cast.injector.heal(1)
    assert runs_on(busy(cast, tmp_path, monkeypatch))


def test_a_stop_heals_what_is_slowed(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task runs again, and the thread has ended."""
    pid = busy(cast, tmp_path, monkeypatch)
    cast.inject(1, "slow worker:0 share=1%")
    wait_until(lambda: is_stopped(pid), 5, "it is stopped for nearly all of the time")
    cast.injector.stop()
    cast.throttle.stop()
    assert runs_on(pid)
    assert "throttle" not in {thread.name for thread in threading.enumerate()}


def test_the_throttle_sleeps_while_nothing_is_slowed(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread does not exist before the first fault, and does not wake up after the last one."""
    assert "throttle" not in {thread.name for thread in threading.enumerate()}
    pid = busy(cast, tmp_path, monkeypatch)
    cast.inject(1, "slow worker:0")
    wait_until(lambda: is_stopped(pid), 5, "it is slowed")
    cast.injector.heal(1)
    thread = next(thread for thread in threading.enumerate() if thread.name == "throttle")

    def sleeps() -> bool:
        before = wakeups(thread)
        threading.Event().wait(0.5)
        return wakeups(thread) == before

    wait_until(sleeps, 10, "it does not wake up in half a second, five periods long")


def test_a_zombie_is_neither_slowed_nor_limited(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zombie has ended, but its process group has not been swept yet."""
    pid = busy(cast, tmp_path, monkeypatch)
    cast.inject(1, "slow worker:0")
    signal_group(cast.children[WORKER], signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not cast.inject(2, "memory worker:0").done
    cast.injector.heal(1)


def test_a_signal_reaches_only_a_task_that_has_not_ended(cast: Cast) -> None:
    """So exit code 0 of a task that had ended before is known not to answer SIGTERM."""
    process = cast.starts("-c", "print('up', flush=True); input()")
    child = cast.children[WORKER]
    cast.throttle.signal(WORKER, child, signal.SIGCONT)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    wait_until(lambda: procfs.is_zombie(child.pid), 10, "it has ended")
    cast.throttle.signal(WORKER, child, signal.SIGTERM)
    assert child.signals_sent == [signal.SIGCONT]

"""The supervisor costs next to nothing: it starts at once, stays small, and sleeps while nothing happens."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.support import CHILDREN, ROOT, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Up]
MEGABYTE = 1 << 10  # in the kilobytes of /proc
HEAVY = {"tensorflow", "keras", "numpy", "torch", "jax"}


def cpu_seconds(*words: str) -> float:
    """What a Python command costs; unlike the time on the clock, it does not depend on who else is busy."""
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_costs_at_most_three_times_what_importing_click_does() -> None:
    """No command's modules are imported to print the help."""
    pairs = [(cpu_seconds("-m", "clusterkit", "--help"), cpu_seconds("-c", "import click")) for _ in range(7)]
    helps, clicks = zip(*pairs, strict=True)
    assert statistics.median(helps) <= 3 * statistics.median(clicks)


def test_nothing_that_the_supervisor_imports_is_heavy() -> None:
    """Neither the supervisor nor any command imports TensorFlow or NumPy."""
    commands = [f"cli.commands.{name}" for name in ("up", "config", "remove")]
    modules = ["supervisor.launch", "supervisor.prepare", "supervisor.resolve", *commands]
    imports = "; ".join(f"import clusterkit.{name}" for name in modules)
    code = f"{imports}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not HEAVY & set(found.stdout.split())


def status(pid: int, name: str) -> int:
    """A number of /proc/PID/status."""
    found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found.group(1))


def effort(pid: int) -> tuple[int, int]:
    """The processor time, in ticks, and the wakeups of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    threads = Path(f"/proc/{pid}/task").iterdir()
    switches = [re.findall(r"ctxt_switches:\s+(\d+)", (thread / "status").read_text()) for thread in threads]
    return int(fields[11]) + int(fields[12]), sum(int(count) for counts in switches for count in counts)


def are_calm(pids: Collection[int]) -> bool:
    """Whether processes do nothing for a moment."""
    before = [effort(pid) for pid in pids]
    threading.Event().wait(0.5)
    return before == [effort(pid) for pid in pids]


def test_supervisor_and_guardian_are_small_and_sleep(up: Start, tmp_path: Path) -> None:
    """With four tasks under way, each has less than 60 MB, no TensorFlow in it, and for two seconds nothing to do."""
    go = tmp_path / "go"
    run = up("--workers", "4", CHILDREN / "together.py", go)
    run.wait_for("Ready", deadline=30, count=4)
    processes = (run.supervisor, run.process.pid)
    for pid in processes:
        assert status(pid, "VmRSS") < 60 * MEGABYTE
        assert "tensorflow" not in Path(f"/proc/{pid}/maps").read_text()
    wait_until(lambda: are_calm(processes), 20, "the last events are in the journal")
    before = [effort(pid) for pid in processes]
    threading.Event().wait(2.0)
    for (ticks, wakeups), pid in zip(before, processes, strict=True):
        ticks_after, wakeups_after = effort(pid)
        assert ticks_after - ticks <= 1
        assert wakeups_after - wakeups <= 2
    go.touch()
    assert run.wait(20) == 0


def test_many_reports_wake_the_supervisor_a_few_times_a_second(up: Start, tmp_path: Path) -> None:
    """Eight tasks report a hundred steps a second each: taken in bunches, and one a second of each is passed on."""
    go, seconds = tmp_path / "go", 3.0
    run = up("--workers", "8", CHILDREN / "reports.py", go)
    for index in range(8):
        run.wait_for("Progressed", deadline=30, count=3, task=f"worker:{index}")
    began = time.monotonic()
    events = len(run.events("Progressed"))
    ticks, wakeups = effort(run.supervisor)
    threading.Event().wait(seconds)
    ticks_after, wakeups_after = effort(run.supervisor)
    passed_on = len(run.events("Progressed")) - events
    passed = time.monotonic() - began
    assert 8 <= passed_on <= 8 * (passed + 1)
    # Four looks at the pipes a second, and what is passed on; without bunches there would be 2400 wakeups or more.
    assert wakeups_after - wakeups <= 100 / seconds * passed
    assert ticks_after - ticks <= 2 * passed  # hundredths of a second
    go.touch()
    assert run.wait(20) == 0

"""The test session itself: what hangs in it fails by name, and whatever ends it, nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from clusterkit.system import procfs
from tests import janitor
from tests.environment import ROOT
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
STARTS = """
import os, subprocess

def start(name):
    # In a session of its own, and nobody's child, as a warm server is.
    words = ["sh", "-c", "sleep 1800 < /dev/null > /dev/null 2>&1 & echo $!"]
    pid = subprocess.run(words, stdout=subprocess.PIPE, check=True, start_new_session=True).stdout
    open(name + ".new", "wb").write(pid)
    os.rename(name + ".new", name)

"""
HANGS = {
    "in python": "import time; time.sleep(600)",
    "in C": "import ctypes; ctypes.CDLL(None).sleep(600)",
    "in C with the lock": "import ctypes; [ctypes.PyDLL(None).sleep(600) for _ in range(600)]",
    "beyond SIGALRM": "import signal, time; signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(600)",
}


class Sessions:
    """Starts sessions of pytest in a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, tests: str, *args: str, world: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A session with a file of tests."""
        self.write("test_first.py", tests)
        with (self.place / "output.txt").open("wb") as output:
            words = ["-m", "pytest", "-p", "tests.session", "-p", "no:cacheprovider", *args]
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=self.place,
                env={**(os.environ if world is None else world), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def write(self, file: str, tests: str) -> None:
        """A file of tests."""
        (self.place / file).write_text(STARTS + tests)

    def run(self, tests: str, *args: str, code: int) -> str:
        """What a session prints that has to end with this exit code."""
        process = self.start(tests, *args)
        assert process.wait(90) == code, self.output
        return self.output

    @property
    def output(self) -> str:
        """So far."""
        return (self.place / "output.txt").read_text()

    def pid(self, name: str) -> int:
        """What a test has started under this name."""
        path = self.place / name
        wait_until(path.exists, 30, lambda: self.output)
        return int(path.read_text())

    def end(self) -> None:
        """Kill those that still run."""
        for process in self.started:
            process.kill()
            process.wait(10)


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    """Start sessions; ended after the test."""
    made = Sessions(tmp_path)
    yield made
    made.end()


def test_a_test_that_hangs_fails_by_name_and_the_rest_goes_on(sessions: Sessions) -> None:
    """However it hangs: in every file, also in its own, and what it has started is ended."""
    for number, hangs in enumerate(HANGS.values()):
        sessions.write(
            f"test_hanging_{number}.py",
            f"""
            def test_before(): pass
            def test_hangs():
                start("left-{number}")
                {hangs}
            def test_after(): pass
            """.replace("\n            ", "\n"),
        )
    output = sessions.run("def test_last(): pass\n", "-n", "4", "--dist", "loadfile", "--timeout", "3", code=1)
    assert f"{len(HANGS)} failed, {2 * len(HANGS) + 1} passed" in output
    for number in range(len(HANGS)):
        assert f"FAILED test_hanging_{number}.py::test_hangs" in output
        assert not janitor.is_alive(sessions.pid(f"left-{number}"))


def test_a_worker_that_is_killed_is_replaced(sessions: Sessions) -> None:
    """Its test fails, though it is the last of the last file, which pytest-xdist would wait for."""
    output = sessions.run(
        "def test_one(): pass\ndef test_dies(): start('left'); os.kill(os.getpid(), 9)\ndef test_last(): pass\n",
        "-n", "1", "--dist", "loadfile", code=1,
    )  # fmt: skip
    assert "1 failed, 2 passed" in output
    assert "crashed while running 'test_first.py::test_dies'" in output
    assert not janitor.is_alive(sessions.pid("left"))


@pytest.mark.parametrize(("how", "workers", "timeout"), [
    ("in python", "0", "-54"), ("in python", "0", "0"),
    pytest.param("in C with the lock", "1", "0", marks=pytest.mark.long),
])  # fmt: skip
def test_a_session_that_takes_too_long_says_what_it_was_doing(
    sessions: Sessions, how: str, workers: str, timeout: str
) -> None:
    """With the stacks of its processes; whatever they were doing, it ends and has failed."""
    up = f"open(os.path.join(os.environ['TMPDIR'], '{janitor.UP}'), 'w').close(); " if timeout == "0" else ""
    code = f"def test_it(): start('left'); {up}{HANGS[how]}"
    process = sessions.start(code, "-n", workers, "--session-timeout", timeout)
    assert process.wait(60) not in (0, None)
    output = sessions.output
    assert "The session has taken too long. It was doing:" in output
    assert re.search(rf"{'gw0' if workers == '1' else 'pytest'}: test_first.py::test_it, for \d+ s", output), output
    assert 'test_first.py", line 11 in test_it' in output, output
    assert not janitor.is_alive(sessions.pid("left"))


def is_gone(pid: int, place: Path) -> bool:
    """Neither the process nor the directory is there."""
    return not janitor.is_alive(pid) and not place.exists()


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.long)])
def test_a_session_that_is_ended_leaves_nothing(tmp_path: Path, workers: str) -> None:
    """By whichever signal, however far from it what it had started has gone; nor its temporary files."""
    with ExitStack() as ended:
        running = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            (tmp_path / number.name).mkdir()
            sessions = Sessions(tmp_path / number.name)
            ended.callback(sessions.end)
            process = sessions.start("def test_it(): start('left'); import time; time.sleep(600)", "-n", workers)
            running.append((number, sessions, process))
        places = {number: Path(procfs.environ(sessions.pid("left"))["TMPDIR"]) for number, sessions, _ in running}
        assert all(place.is_dir() for place in places.values())
        for number, _, process in running:
            process.send_signal(number)
        for number, sessions, process in running:
            assert process.wait(30) != 0, number.name
            left, place = sessions.pid("left"), places[number]
            wait_until(partial(is_gone, left, place), 30, f"the end of what {number.name} has left")

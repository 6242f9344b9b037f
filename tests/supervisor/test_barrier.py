"""Whichever thread of the supervisor fails, at whatever line, the run is over soon, nothing is left, and it is said."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.words.errors import ClusterkitError
from tests.support import CHILDREN, ROOT, processes_of, wait_until

pytestmark = pytest.mark.process

SOON = 5.0  # seconds from the failure: the promise
JOB = ("up", "--workers", "2", "--restart-backoff", "0.05", "--stall-timeout", "0.4")
FAULT = ("--fault", "slow worker:1 share=50% @ step=2")
# Each of the supervisor's threads, and about how many of clusterkit's lines it executes in the job.
LINES = {
    "loop": 20_000,
    "watcher": 3_000,
    "logs": 800,
    "console": 1_500,
    "control": 400,
    "sweeper": 300,
    "sweep worker": 150,
    "look": 600,
    "throttle": 400,
    "fork server": 14,
}
CASES = [
    pytest.param((name, seed), id=f"{name} {seed}", marks=[] if seed < 1 else pytest.mark.soak)
    for name in LINES
    for seed in range(20)
]


@dataclass
class Planted:
    """A run one of whose threads fails at its n-th line."""

    home: Path
    thread: str
    line: int

    def __post_init__(self) -> None:
        self.home.mkdir()
        self.output = self.home / "output"
        self.mark = self.home / "failed"  # made as the thread fails
        with self.output.open("wb") as out:
            words = [CHILDREN / "planted.py", self.thread, str(self.line), self.mark, *JOB, *FAULT]
            self.process = subprocess.Popen(
                [sys.executable, *map(str, words), str(CHILDREN / "whole.sh")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, "CLUSTERKIT_HOME": str(self.home), "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    @property
    def run(self) -> Path | None:
        """The run's directory, once there is one."""
        return next(self.home.glob("runs/*"), None)

    def is_over(self) -> bool:
        """Whether `up` has ended; until then it is asked things, as its users do."""
        if self.process.poll() is None and self.run is not None:
            with suppress(ClusterkitError), Client(RunDirectory(self.run), timeout=0.5) as client:
                client.call("hello")
        return self.process.poll() is not None

    def result(self) -> dict[str, Any]:
        """result.json."""
        assert self.run is not None
        found: dict[str, Any] = json.loads((self.run / "result.json").read_text())
        return found


@pytest.fixture
def planted(home: Path, request: pytest.FixtureRequest) -> Iterator[Planted]:
    """The job, with a random line at which a thread fails."""
    name, seed = request.param
    line = round(LINES[name] ** random.Random(f"{name} {seed}").random())
    print(f"seed {seed}: the thread {name!r} fails at its line {line}")
    made = Planted(home, name, line)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait(10)
    wait_until(lambda: not processes_of(home), 20, "the end of every process")


@pytest.mark.slow
@pytest.mark.parametrize("planted", CASES, indirect=True)
def test_a_thread_that_fails_ends_the_run(planted: Planted, home: Path) -> None:
    """Exit code 70 within five seconds, a sentence with the file of the traceback, a result, and no process left."""
    wait_until(planted.is_over, 30, lambda: f"the end of the run; it printed:\n{planted.output.read_text()[-3000:]}")
    over, output = time.time(), planted.output.read_text()
    assert processes_of(home) == {}
    assert "Traceback" not in output
    if not planted.mark.exists():
        assert planted.process.returncode == 0, output  # it was over before that line
        return
    assert over - planted.mark.stat().st_mtime < SOON
    assert planted.process.returncode == 70, output
    result = planted.result()
    assert (result["state"], result["exit_code"]) == ("failed", 70)
    assert "clusterkit itself failed" in result["reason"]
    assert "Planted" in result["reason"]
    assert planted.run is not None
    crash = planted.run / "crash.txt"
    assert "Planted: at " in crash.read_text()
    assert f"the traceback in {crash}" in output

"""Ctrl-Z and `fg` of a run that a warm server has started, so that no process of it descends from the shell."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from tests.servers import Warm, short_home
from tests.supervisor.test_terminal_stop import SHELLS, STALLS, steps, task_states
from tests.support import processes_of, wait_until
from tests.terminal import program_on_terminal

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

PROGRAM = """
import itertools, time
import tensorflow
from clusterkit import training

for step in itertools.count(1):
    training.report(step=step)
    print("by", tensorflow.BORN_IN, flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


def test_ctrl_z_pauses_a_run_of_a_warm_server(warm: Warm, home: Path, tmp_path: Path) -> None:
    """Its tasks stop, its server does not; `fg` continues them, and Ctrl-C ends them."""
    server, run = warm.start(), RunDirectory(home / "runs" / "x")
    program = tmp_path / "steps.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "clusterkit", "up", "--run-id", "x", "--workers", "2", *STALLS, str(program)]
    variables = [f"{name}={value}" for name, value in warm.env.items()]
    with program_on_terminal(home, SHELLS["bash"], columns=200, PS1="$ ") as shell:
        shell.press(shlex.join(["env", *variables, *command]).encode() + b"\n")
        wait_until(lambda: steps(run) > 3, 60, "the first steps")
        shell.read_until(lambda text: f"by {server}" in text)
        shell.press(b"\x1a")
        shell.read_until(lambda text: "Stopped" in text.partition("The job is paused. `fg` continues it.")[2])
        assert task_states(run) == ["T", "T"]
        assert (procfs.stat(server) or "?")[0] != "T"
        time.sleep(1.5)  # what was reported before is read
        made = steps(run)
        time.sleep(3.0)  # longer than both limits for stalls
        assert steps(run) == made
        shell.press(b"fg\n")
        wait_until(lambda: steps(run) > made + 3, 20, "more steps")
        shell.press(b"\x03")
        wait_until(lambda: not run.is_live(), 20, "the end of the run")
        result = run.result()
        assert result is not None
        assert (result.exit_code, result.restarts) == (130, 0)
        shell.press(b"exit\n")
        shell.finish()
    warm("stop")
    assert processes_of(home) == {}

"""Ctrl-Z and `fg` under a shell: the job pauses and continues, and writes nothing over the prompt."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.system import procfs
from clusterkit.words.events import Progressed, Spawned, Stalled
from tests.support import CHILDREN, Command, processes_of, wait_until
from tests.terminal import OnTerminal, program_on_terminal

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

Clusterkit = Callable[..., Command]
SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "dash": ["dash", "-i"]}
STALLS = ("--stall-timeout", "1s", "--stall-warning", "0.5s", "--restart", "never")


def task_states(run: RunDirectory) -> list[str]:
    """The state of each task's first process, as in /proc."""
    found = []
    for _, event in JournalReader(run).events():
        if isinstance(event, Spawned):
            found.append((procfs.stat(int(event.where.removeprefix("pid "))) or "?")[0])
    return found


def steps(run: RunDirectory) -> int:
    """How many steps were reported so far."""
    return sum(isinstance(event, Progressed) for _, event in JournalReader(run).events())


def started(shell: OnTerminal, *options: str) -> None:
    """Type the command of a run that makes steps, and wait for the first one."""
    command = [sys.executable, "-m", "clusterkit", "up", "--run-id", "x", "--workers", "2", *options]
    shell.press(shlex.join([*command, str(CHILDREN / "roles.py"), "--steps", "100000"]).encode() + b"\n")


@pytest.mark.parametrize("name", SHELLS)
def test_ctrl_z_pauses_the_job_and_fg_continues_it(home: Path, name: str) -> None:
    """Nothing is written meanwhile, and the time is no stall."""
    run = RunDirectory(home / "runs" / "x")
    with program_on_terminal(home, SHELLS[name], columns=200, PS1="$ ") as shell:
        started(shell, *STALLS)
        wait_until(lambda: steps(run) > 3, 60, "the first steps")
        shell.press(b"\x1a")
        shell.read_until(lambda text: "clusterkit: The job is paused. `fg` continues it." in text)
        shell.read_until(lambda text: "Stopped" in text.partition("The job is paused")[2])
        assert task_states(run) == ["T", "T"]
        before = shell.text
        shell.press(b"echo $((40+2))\n")
        shell.read_until(lambda text: "42\n" in text.partition("40+2")[2])
        time.sleep(1.5)  # what was reported before is read
        made = steps(run)
        time.sleep(3.0)  # longer than both limits for stalls
        shell.press(b"echo $((50+2))\n")
        shell.read_until(lambda text: "52\n" in text.partition("50+2")[2])
        written = shell.text[len(before) :]
        assert "│" not in written, written
        assert steps(run) == made
        shell.press(b"fg\n")
        wait_until(lambda: steps(run) > made + 3, 20, "more steps")
        assert "T" not in task_states(run)
        shell.press(b"\x03")
        shell.read_until(lambda text: "stopped" in text.partition("fg\n")[2], 30)
        wait_until(lambda: not run.is_live(), 20, "the end of the run")
        result = run.result()
        assert result is not None
        assert (result.exit_code, result.restarts) == (130, 0)
        assert not [event for _, event in JournalReader(run).events() if isinstance(event, Stalled)]
        shell.press(b"exit\n")
        shell.finish()


def test_a_stopped_run_can_be_ended_from_another_terminal(home: Path, clusterkit: Clusterkit) -> None:
    """Its supervisor answers, and its tasks handle SIGTERM."""
    run = RunDirectory(home / "runs" / "x")
    with program_on_terminal(home, SHELLS["bash"], columns=200, PS1="$ ") as shell:
        started(shell)
        wait_until(lambda: steps(run) > 3, 60, "the first steps")
        shell.press(b"\x1a")
        shell.read_until(lambda text: "The job is paused" in text)
        unpause = clusterkit("unpause", "all")
        assert unpause.wait(20) == 1
        assert "The terminal of this run has stopped it (Ctrl-Z). Type `fg` there to continue." in unpause.output
        assert clusterkit("down").wait(30) == 0
        result = run.result()
        assert result is not None
        assert result.exit_code == 143
        shell.press(b"fg\n")
        shell.press(b"exit\n")
        shell.finish()


def test_ctrl_z_before_the_run_has_begun(home: Path) -> None:
    """Nothing starts until `fg`."""
    run = RunDirectory(home / "runs" / "x")
    with program_on_terminal(home, SHELLS["bash"], columns=200, PS1="$ ") as shell:
        started(shell)
        wait_until(run.path.exists, 30, "the run directory")
        shell.press(b"\x1a")
        shell.read_until(lambda text: "Stopped" in text)
        made = steps(run)
        time.sleep(1.0)
        assert steps(run) == made
        shell.press(b"fg\n")
        wait_until(lambda: steps(run) > made + 3, 60, "steps")
        shell.press(b"\x03")
        wait_until(lambda: not run.is_live(), 20, "the end of the run")
        shell.press(b"exit\n")
        shell.finish()
    assert processes_of(home) == {}

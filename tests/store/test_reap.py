"""What is left when guardian and supervisor die at the same moment is found and ended later."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from clusterkit.cli.commands.remove import command
from clusterkit.store.cleaning import MARK
from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from tests.losses import lose
from tests.strangers import STRANGER, needs_root
from tests.support import CHILDREN, Command, Up, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Up]
Clusterkit = Callable[..., Command]


def left_behind(up: Start, home: Path) -> Up:
    """A run of which two tasks and their four children, and nothing else, are left."""
    run = up("--run-id", "lost", "--workers", "2", CHILDREN / "forgets.py")
    run.wait_for("Ready", deadline=20, count=2)
    wait_until(lambda: len(processes_of(home)) == 8, 10, "all of them")
    lose(run)
    run.process.wait(10)
    wait_until(lambda: len(processes_of(home)) == 6, 10, "nothing but the tasks")
    return run


def test_reap_ends_what_a_lost_run_left(up: Start, clusterkit: Clusterkit, home: Path) -> None:
    """All of it, whatever it ignores, and it says how much that was."""
    left_behind(up, home)
    reap = clusterkit("reap")
    assert reap.wait(20) == 0
    assert reap.output == "Ended 6 processes of the run lost.\n"
    assert processes_of(home) == {}
    again = clusterkit("reap")
    assert again.wait(20) == 0
    assert again.output == "Nothing was left behind.\n"


def test_reap_leaves_other_state_directories_alone_unless_told(
    up: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another CLUSTERKIT_HOME lost is ended by `reap --all` only. Here the machine is no more than this run.

    Otherwise this test would end what others have lost: people's runs, and those of the same tests beside these.
    """
    left_behind(up, home)
    left = tuple(processes_of(home))
    monkeypatch.setattr(procfs, "all_pids", lambda: iter(left))
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home.parent / "elsewhere"))
    assert CliRunner().invoke(command).output == "Nothing was left behind.\n"
    assert len(processes_of(home)) == 6
    assert CliRunner().invoke(command, ["--all"]).output == "Ended 6 processes of the run lost.\n"
    assert not [pid for pid in left if not procfs.is_zombie(pid)]


def test_the_next_up_ends_what_a_lost_run_left(up: Start, home: Path) -> None:
    """Nobody has to know of `reap`."""
    left_behind(up, home)
    run = up("--run-id", "next", CHILDREN / "roles.py", "--steps", "3")
    assert run.wait(20) == 0
    assert "The run lost had lost its supervisor and left 6 processes behind, which clusterkit killed." in run.output
    assert processes_of(home) == {}


def test_a_run_that_continues_ends_what_is_left_of_it(up: Start, home: Path) -> None:
    """Before its tasks start again: else two attempts of a child would write side by side."""
    left_behind(up, home)
    before = processes_of(home)
    grace = "--grace-period", "0.2"
    run = up("--run-id", "lost", "--continue", *grace, "--workers", "2", CHILDREN / "forgets.py")
    run.wait_for("Ready", deadline=20, count=4)
    assert not before.keys() & processes_of(home).keys()
    assert "The run lost had lost its supervisor and left 6 processes behind, which clusterkit killed." in run.output
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 128 + signal.SIGTERM


def test_a_live_run_is_left_alone(up: Start, clusterkit: Clusterkit, tmp_path: Path) -> None:
    """Neither `reap` nor another `up` of the same home touches it."""
    go = tmp_path / "go"
    live = up("--run-id", "live", "--workers", "2", CHILDREN / "together.py", go)
    live.wait_for("Ready", deadline=20, count=2)
    reap = clusterkit("reap")
    assert reap.wait(20) == 0
    assert reap.output == "Nothing was left behind.\n"
    assert up("--run-id", "other", CHILDREN / "roles.py", "--steps", "3").wait(20) == 0
    assert not live.events("Exited")
    go.touch()
    assert live.wait(20) == 0


@needs_root
def test_root_does_not_end_what_another_user_has_marked(home: Path, clusterkit: Clusterkit) -> None:
    """Whoever sets the variable for a process of their own would have it ended, and takes no part in the run."""
    run = RunDirectory(home / "runs" / "lost")
    run.make()
    run.lock_file.touch()
    env = {"CLUSTERKIT_RUN_DIR": str(run.path), "CLUSTERKIT_TASK": "worker:0"}
    sleep = ["/bin/sleep", "60"]
    with subprocess.Popen(sleep, env=env, user=STRANGER) as theirs, subprocess.Popen(sleep, env=env) as own:
        try:
            wait_until(lambda: MARK in procfs.environ(theirs.pid), 10, "the mark")
            reap = clusterkit("reap")
            assert reap.wait(20) == 0
            assert reap.output == "Ended 1 process of the run lost.\n"
            assert own.wait(10) == -signal.SIGKILL
            assert theirs.poll() is None
        finally:
            theirs.kill()
            own.kill()

"""Commands, forked from a server that imports nothing: nothing is different for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.system import procfs
from tests.losses import lose
from tests.support import CHILDREN, Up, fork_server_of, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Up]
LIBRARYS_OWN = 0b11 << 31  # 32 and 33, which the C library keeps to itself: nobody can set them by its functions
MODES = {"forked": (), "cold": ("--start", "cold")}
both = pytest.mark.parametrize("mode", MODES)


def test_a_command_is_forked_from_a_server_that_is_small(up: Start, home: Path) -> None:
    """The fork becomes the command; the server remains for the next one."""
    run = up("--workers", "2", "--restart-scope", "task", "--restart-backoff", "0", "sleep", "60")
    server = run.fork_server()
    first = run.wait_for("Spawned", task="worker:1")["pid"]
    wait_until(lambda: Path(f"/proc/{first}/comm").read_text() == "sleep\n", 10, "the command")
    assert fork_server_of(home) == server
    run.kill("worker:1")
    run.wait_for("Spawned", task="worker:1", attempt=2)
    run.signal(signal.SIGINT)
    assert run.wait(10) == 130
    assert run.events("Noted", server="lost") == []
    assert not (run.run / "fork-server.log").read_text()


def test_what_a_command_sees_is_the_same_forked_and_cold(up: Start, tmp_path: Path) -> None:
    """Signals, limits, descriptors, environment, directory, and its own session."""
    seen = {}
    for mode, options in MODES.items():
        env = ("--env", "MINE=x y", "--cwd", tmp_path)
        run = up("--run-id", mode, *options, *env, CHILDREN / "world.sh", "one", "t w o")
        assert run.wait(20) == 0, run.output
        seen[mode] = run.log("worker:0").decode().splitlines()
    assert seen["forked"] == seen["cold"]
    assert {"leads", "MINE=x y", str(tmp_path), "/dev/null"} <= set(seen["cold"])
    (ignored,) = (line.removeprefix("SigIgn:") for line in seen["cold"] if line.startswith("SigIgn:"))
    assert int(ignored, 16) & ~LIBRARYS_OWN == 0
    assert seen["cold"][-1].endswith("world.sh one t w o")


@both
def test_a_command_that_can_not_be_executed(up: Start, tmp_path: Path, mode: str) -> None:
    """It ends with a one-line reason and exit code 1."""
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF but no more")
    program.chmod(0o755)
    run = up("--restart", "never", *MODES[mode], program)
    assert run.wait(20) == 1
    assert run.result["cause"]["exit"]["code"] == 1
    assert run.log("worker:0") == f"{program} can't be executed: Exec format error\n".encode()


@both
def test_a_command_in_a_pipe_that_nobody_reads_dies_of_it(up: Start, mode: str) -> None:
    """SIGPIPE is not ignored, as it is in Python."""
    run = up(*MODES[mode], "bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}")
    assert run.wait(20) == 0
    assert run.log("worker:0") == b"y\n141\n"


@both
def test_a_command_does_not_outlive_the_supervisor_and_the_guardian(up: Start, home: Path, mode: str) -> None:
    """The parent-death signal holds across exec."""
    run = up("--workers", "2", *MODES[mode], "sleep", "60")
    run.wait_for("Spawned", count=2)
    pids = [pids[0] for pids in run.pids().values()]
    places = [Path(f"/proc/{pid}/comm") for pid in pids]
    wait_until(lambda: [place.read_text() for place in places] == ["sleep\n"] * 2, 10, "the commands")
    lose(run)
    run.wait(5)
    wait_until(lambda: all(map(procfs.is_zombie, pids)), 2, "the commands' end")
    wait_until(lambda: not processes_of(home), 2, lambda: f"everything is gone; left: {processes_of(home)}")


def test_sigkill_of_the_server_of_a_command_has_no_effect(up: Start) -> None:
    """The next attempt starts as usual."""
    run = up("--restart-backoff", "0", "sh", "-c", "test $CLUSTERKIT_ATTEMPT = 2 || exec sleep 60")
    os.kill(run.fork_server(), signal.SIGKILL)
    run.wait_for("Noted", server="lost")
    run.wait_for("Spawned", task="worker:0")
    run.kill("worker:0")
    assert run.wait(20) == 0
    assert len(run.pids()["worker:0"]) == 2

"""`up -d`: what it waits for, what it prints, and that the run does not depend on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from tests.commands import JOB, ROLES, Clusterkit, supervisor, wait_for
from tests.support import CHILDREN, ROOT, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

LISTENS = CHILDREN / "listens.py"


def begun(ck: Clusterkit, *args: str | Path) -> subprocess.Popen[str]:
    """An `up -d` that is not waited for."""
    return subprocess.Popen(
        [sys.executable, "-m", "clusterkit", "up", "-d", *map(str, args)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=ck.environment(),
    )  # fmt: skip


def test_a_detached_run_has_a_session_and_a_console_of_its_own(ck: Clusterkit) -> None:
    """Nothing ties it to the terminal; what `up` would have shown is in console.log."""
    run = ck.up(*JOB, ROLES, "--steps", "100000")
    assert os.getsid(supervisor(run)) not in (os.getsid(0), supervisor(run))
    assert Path(f"/proc/{supervisor(run)}/fd/0").readlink() == Path("/dev/null")
    wait_until(lambda: "chief:0    │ chief:0 goes from step 0" in (run / "console.log").read_text(), 10, "its output")
    assert not list(run.parent.glob(".*"))
    ck("down")
    assert f"run {run.name} stopped" in (run / "console.log").read_text()


def test_it_returns_when_every_port_listens(ck: Clusterkit, tmp_path: Path) -> None:
    """A program that reports nothing is ready when its server is."""
    go, end = tmp_path / "go", tmp_path / "end"
    up = begun(ck, "--run-id", "one", "--workers", "2", LISTENS, go, end)
    run = ck.home / "runs/one"
    wait_until(lambda: b"up" in log_of(run, "worker:0") and b"up" in log_of(run, "worker:1"), 20, "both run")
    assert up.poll() is None
    go.touch()
    out, err = up.communicate(timeout=20)
    assert (up.returncode, out) == (0, "one\n")
    *ready, _ = err.splitlines()
    assert sorted(ready) == [" ✔ worker:0 is ready", " ✔ worker:1 is ready"]
    end.touch()
    ck("wait", "one")


def log_of(run: Path, task: str) -> bytes:
    """What the task's first attempt wrote so far."""
    try:
        return (run / "tasks" / task / "attempt-1.log").read_bytes()
    except OSError:
        return b""


def test_it_returns_if_the_tasks_open_no_port_and_report_nothing(ck: Clusterkit, tmp_path: Path) -> None:
    """After a short while, with a word about it."""
    up = ck("up", "-d", "--workers", "2", "/bin/sleep", "60")
    assert up.err.startswith(
        " · worker:0, worker:1 are running, but have not opened their ports, and reported nothing so far. After 2m "
        "without either, the run fails: see --startup-timeout.\n"
    )
    assert ck("ps", up.out.strip()).out.count("running") == 2
    assert "--startup-timeout" not in ck("up", "-d", "--startup-timeout", "0", "--workers", "2", "/bin/sleep", "60").err


def test_a_task_that_has_ended_is_not_waited_for(ck: Clusterkit, tmp_path: Path) -> None:
    """Beside another one that is ready."""
    program = tmp_path / "program.py"
    program.write_text(
        f"import os, runpy\nif os.environ['CLUSTERKIT_TASK'] != 'worker:1':\n    runpy.run_path({str(LISTENS)!r})\n"
    )
    (tmp_path / "go").touch()
    up = ck("up", "-d", "--workers", "2", program, tmp_path / "go", tmp_path / "end")
    run = up.out.strip()
    assert up.err.splitlines() == [
        " ✔ worker:0 is ready",
        f"clusterkit: follow the run with `clusterkit attach {run}`; stop it with `clusterkit down {run}`.",
    ]


def test_without_waiting_it_returns_when_the_run_is_live(ck: Clusterkit, tmp_path: Path) -> None:
    """The tasks need not be ready, and here they never are."""
    run = ck.up("--no-wait", "--workers", "2", LISTENS, tmp_path / "never", tmp_path / "never")
    assert RunDirectory(run).is_live()
    assert ck.json("ls")[0]["run_id"] == run.name


def test_a_run_that_ends_at_once_is_reported(ck: Clusterkit) -> None:
    """The exit code is the run's, the report is on stderr, and the run id is there to look further."""
    up = ck("up", "-d", "--workers", "2", "--restart", "never", LISTENS, code=1)
    assert "IndexError" in up.err
    assert f"run {up.out.strip()} failed" in up.err
    assert (ck.home / "runs" / up.out.strip() / "console.log").exists()


def test_bad_input_is_told_before_anything_is_detached(ck: Clusterkit) -> None:
    """As by `up`: exit code 2 and sentences; a run id that is taken, too."""
    assert ck("up", "-d", "no_such_program.py", code=2).out == ""
    away = Clusterkit(ck.home / ("x" * 300))
    assert "Cannot use the run directory: File name too long" in away("up", "-d", ROLES, code=2).err
    ck("up", "--run-id", "taken", ROLES, "--steps", "1")
    again = ck("up", "-d", "--run-id", "taken", ROLES, code=2)
    assert again.out == ""
    assert "A run taken already exists." in again.err


def test_ctrl_c_ends_the_waiting_and_not_the_run(ck: Clusterkit, tmp_path: Path) -> None:
    """It is said so, with what ends the run."""
    up = begun(ck, "--run-id", "one", "--workers", "2", LISTENS, tmp_path / "never", tmp_path / "never")
    run = ck.home / "runs/one"
    wait_until(lambda: (run / "console.log").exists(), 20, "the run is live")
    up.send_signal(signal.SIGINT)
    out, err = up.communicate(timeout=20)
    assert (up.returncode, out) == (130, "")
    assert "the run one continues. Stop it with `clusterkit down one`." in err
    wait_for(run, "Spawned", task="worker:1")
    assert RunDirectory(run).is_live()

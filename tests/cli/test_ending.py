"""`down`, `wait`, `attach`, `rm` and `prune`; and that no command waits for a supervisor that is dead."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory
from tests.commands import JOB, ROLES, Clusterkit, journal, supervisor, wait_for
from tests.support import CHILDREN, ROOT, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

LONG = (*JOB, ROLES, "--steps", "100000")


def begun(ck: Clusterkit, *args: str) -> subprocess.Popen[str]:
    """A command that is not waited for."""
    return subprocess.Popen(
        [sys.executable, "-m", "clusterkit", *args],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=ck.environment(),
    )  # fmt: skip


def test_down_ends_the_run_and_says_so(ck: Clusterkit) -> None:
    """It returns when nothing of the run is left; a second one has nothing to do."""
    run = ck.up(*LONG)
    assert ck("down").out == f"The run {run.name} was stopped.\n"
    assert not RunDirectory(run).is_live()
    wait_until(lambda: not processes_of(ck.home), 5, "the guardian's end")
    assert ck("down", run.name).out == f"The run {run.name} had already ended.\n"
    assert ck("down", code=2).err.startswith("clusterkit: No run is live.")
    assert ck("wait", code=143).out == f"The run {run.name} stopped (exit code 143).\n"


@pytest.mark.parametrize("option", [("--kill",), ("--timeout", "0.3")])
def test_down_can_be_impatient(ck: Clusterkit, option: tuple[str, ...]) -> None:
    """A task that ignores SIGTERM has a minute of grace; --kill and --timeout cut that short."""
    run = ck.up("--grace-period", "60", "--workers", "2", CHILDREN / "stubborn.py", "ignore")
    assert ck.json("down", *option) == {"run_id": run.name, "was_live": True, "state": "stopped"}
    assert {event["exit"]["signal"] for event in journal(run, "Exited")} == {9}


def test_wait_has_the_exit_code_of_the_run(ck: Clusterkit) -> None:
    """Of one that goes on when it is asked for, and of one that failed before."""
    run = ck.up("--restart", "never", "--workers", "2", ROLES, "--steps", "100000")
    waiting = begun(ck, "wait")
    ck("kill", "worker:0")
    out, _ = waiting.communicate(timeout=20)
    assert (waiting.returncode, out) == (1, f"The run {run.name} failed (exit code 1).\n")
    assert ck.json("wait", run.name, code=1)["state"] == "failed"


def test_attach_shows_what_up_shows_and_ends_with_the_run(ck: Clusterkit) -> None:
    """From now on, with the lines before it that were asked for, and the exit code of the run."""
    run = ck.up("--workers", "2", ROLES, "--steps", "400")
    shown = ck("attach", "--tail", "5").out
    assert "worker:0   │ worker:0 goes from step 0 to 400\n" in shown
    assert "worker:0   │ worker:0 is done\n" in shown
    assert "clusterkit │ worker:0 exited with code 0: the job is done." in shown
    assert f"run {run.name} succeeded" in shown


def test_attach_shows_the_tasks_that_are_named(ck: Clusterkit) -> None:
    """What clusterkit itself says is there, too."""
    ck.up("--workers", "2", ROLES, "--steps", "400")
    shown = ck("attach", "--tail", "5", "worker:1").out
    # On a busy machine it comes up after worker:0's first checkpoint.
    assert re.search(r"^worker:1   │ worker:1 goes from step \d+ to 400$", shown, re.MULTILINE)
    assert "worker:0   │ " not in shown
    assert "clusterkit │ worker:0 exited with code 0" in shown


def test_ctrl_c_lets_go_of_an_attached_run(ck: Clusterkit) -> None:
    """Exit code 0, and the run goes on."""
    run = ck.up(*LONG)
    attach = begun(ck, "attach", "--log-level", "debug")
    assert attach.stdout is not None
    assert "chief:0" in attach.stdout.readline()
    attach.send_signal(signal.SIGINT)
    _, err = attach.communicate(timeout=20)
    assert attach.returncode == 0
    assert err == f"clusterkit: the run {run.name} continues. Stop it with `clusterkit down {run.name}`.\n"
    assert RunDirectory(run).is_live()


FOLLOWERS: list[tuple[str, ...]] = [("logs", "-f"), ("events", "-f"), ("wait",), ("attach",), ("top",)]
CALLERS: list[tuple[str, ...]] = [
    ("ps",), ("ls",), ("kill", "--run", "one", "all"), ("stacks", "--run", "one"), ("restart", "--run", "one", "all"),
    ("down", "one"), ("logs", "one"), ("wait", "one"), ("show", "one"), ("attach", "one"), ("top", "one"),
]  # fmt: skip


def test_no_command_waits_for_a_dead_supervisor(ck: Clusterkit) -> None:
    """SIGKILL leaves the socket's file; those that follow the run end, and those that come later do not begin."""
    run = ck.up("--run-id", "one", *LONG)
    before = {args: begun(ck, *args) for args in FOLLOWERS}
    for first in FOLLOWERS[:2]:
        out = before[first].stdout
        assert out is not None
        assert out.readline()
    os.kill(supervisor(run), signal.SIGKILL)
    for args, command in before.items():
        command.communicate(timeout=20)
        assert command.returncode in (0, 1, 2), args  # 2: begun too late for a live run
    assert before["wait",].returncode == 1
    assert (run / "control.sock").exists()
    for args in CALLERS:
        ended = begun(ck, *args)
        ended.communicate(timeout=20)
        assert ended.returncode in (0, 1, 2), args


def test_rm_refuses_a_live_run_and_removes_the_others(ck: Clusterkit) -> None:
    """Those that could be removed are; exit code 1 says that not all were."""
    ck("up", "--run-id", "old", ROLES, "--steps", "1")
    live = ck.up("--run-id", "live", *LONG)
    answer = ck("rm", "live", "old", code=1)
    assert answer.out == "old\n"
    assert answer.err == "clusterkit: The run live is live. Stop it first: clusterkit down live\n"
    assert RunDirectory(live).is_live()
    assert not (ck.home / "runs/old").exists()


def finished(ck: Clusterkit, name: str, age: float) -> None:
    """A run that ended so many seconds ago."""
    run = ck.home / "runs" / name
    run.mkdir(parents=True)
    for file, content in (("lock", ""), ("result.json", '{"state": "failed", "exit_code": 1, "reason": "x"}')):
        (run / file).write_text(content)
    ended = (run / "result.json").stat().st_mtime - age
    os.utime(run / "result.json", (ended, ended))


def test_prune_takes_what_is_old_and_never_what_lives(ck: Clusterkit) -> None:
    """By age, by count, or by both; a dry run removes nothing."""
    for name, age in (("days", 8 * 86400.0), ("hours", 7200.0), ("now", 0.0)):
        finished(ck, name, age)
    live = ck.up("--run-id", "live", *LONG)
    assert ck.json("prune", "--older-than", "7d", "--dry-run") == {"removed": ["days"], "kept": []}
    assert ck("prune", "--older-than", "7d").out == "days\n"
    assert ck("prune", "--keep", "1").out == "hours\n"
    assert ck("prune", "--keep", "0", "--older-than", "1h").out == ""
    assert ck("prune", "--keep", "0").out == "now\n"
    assert RunDirectory(live).is_live()
    assert ck("prune", code=2).err


def test_a_run_that_was_lost_altogether_is_removed_with_its_processes(ck: Clusterkit) -> None:
    """Without its directory nobody could tell later whose they were."""
    run = ck.up("--workers", "2", CHILDREN / "forgets.py")
    for task in ("worker:0", "worker:1"):
        wait_for(run, "Ready", task=task)
    wait_until(lambda: len(processes_of(ck.home)) == 8, 10, "all of them")
    guardian = int(Path(f"/proc/{supervisor(run)}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guardian, signal.SIGSTOP)
    os.kill(supervisor(run), signal.SIGKILL)
    os.kill(guardian, signal.SIGKILL)
    wait_until(lambda: not RunDirectory(run).is_live(), 10, "the supervisor's end")
    assert [row["state"] for row in ck.json("ls")] == ["lost"]
    shown = ck("show").out
    assert f"✘ run {run.name} was lost after " in shown
    assert "Reason: its supervisor was killed." in shown
    assert shown.count("was lost with its supervisor") == 2
    assert ck("wait", code=1).out == f"The run {run.name} was lost (exit code 1).\n"
    assert f"clusterkit rm --force {run.name}" in ck("rm", run.name, code=1).err
    ck("rm", "--force", run.name)
    assert processes_of(ck.home) == {}
    assert json.loads(ck("ls", "--json").out) == []

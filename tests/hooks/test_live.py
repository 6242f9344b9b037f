"""Hooks of real runs: each is told what happened, and none of them is left, however the run ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.system import procfs
from tests.commands import ROLES
from tests.losses import lose
from tests.support import Command, Up, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

GANG = ("--workers", "2", "--restart-backoff", "0.1", "--start", "cold")
Start = Callable[..., Up]


def told(file: Path) -> list[dict[str, Any]]:
    """What commands were told, in whole lines."""
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]] if file.exists() else []


def every(command: str) -> list[str]:
    """The same command for each hook."""
    return [f"--on-{name}={command}" for name in ("failure", "recovery", "stall", "end")]


def test_a_run_that_recovers(up: Start, tmp_path: Path) -> None:
    """A failure, a recovery and the end, in this order; result.json is there when the end is told; no value of a
    variable is in what they read, and no word of a task on their command line."""
    seen, gate = tmp_path / "seen", tmp_path / "gate"
    end = f"cat >> {seen}; test -s $CLUSTERKIT_RUN_DIR/result.json"
    run = up(
        *GANG, f"--on-failure=cat >> {seen}", f"--on-recovery=cat >> {seen}; touch {gate}", f"--on-end={end}",
        "--env", "API_TOKEN=hunter2", ROLES, "--steps", "40", "--fail", "worker:1:1:7:3", "--until", gate,
    )  # fmt: skip
    assert run.wait(60) == 0, run.output
    failure, recovery, end_ = told(seen)
    assert (failure["event"], failure["task"], failure["exit_code"]) == ("failure", "worker:1", 3)
    assert failure["restarts"] == ["worker:0", "worker:1"]
    assert Path(failure["log"]).is_file()
    assert (recovery["event"], recovery["task"]) == ("recovery", "worker:1")
    assert recovery["resumed_step"] is not None
    assert 0 < recovery["seconds"] < recovery["elapsed"]
    assert (end_["event"], end_["state"], end_["run_exit_code"], end_["step"]) == ("end", "succeeded", 0, 40)
    assert end_["checkpoint"] == str(run.run / "checkpoints/step")
    assert {one["run"] for one in (failure, recovery, end_)} == {run.run.name}
    assert "hunter2" not in seen.read_text()
    waits = "Waiting up to 30 s for the --on-"  # which is said where a command takes a second
    assert [line for line in run.output.splitlines() if "command" in line and waits not in line] == []
    assert run.events("Warned") == []


def test_a_run_that_fails(up: Start, tmp_path: Path) -> None:
    """Its failure and its end; a command that fails is a warning, and the exit code is the job's."""
    seen = tmp_path / "seen"
    run = up(*GANG, "--restart", "never", *every(f"cat >> {seen}; exit 9"), ROLES, "--fail", "worker:0:1:3:5")
    assert run.wait(60) == 1, run.output
    assert [(one["event"], one["state"], one["task"]) for one in told(seen)] == [
        ("failure", None, "worker:0"),
        ("end", "failed", "worker:0"),
    ]
    assert "The --on-end command exited with code 9, which changes nothing in the run." in run.output


def test_a_stall_is_told_with_its_verdict(up: Start, tmp_path: Path) -> None:
    """And Ctrl-C is an end."""
    seen = tmp_path / "seen"
    run = up(*GANG, "--stall-warning", "1", "--grace-period", "0.5", *every(f"cat >> {seen}"), ROLES,
             "--until", tmp_path / "never", "--steps", "5")  # fmt: skip
    wait_until(lambda: told(seen), 60, lambda: f"the stall; it printed:\n{run.output}")
    run.signal(signal.SIGINT)
    assert run.wait(30) == 130
    stall, end = told(seen)
    assert (stall["event"], end["event"], end["state"], end["run_exit_code"]) == ("stall", "end", "stopped", 130)
    assert stall["message"].startswith("No task has reported progress for ")
    assert Path(stall["report"]).is_file()


@pytest.mark.parametrize("victims", [("supervisor",), ("guardian",), ("guardian", "supervisor")], ids="+".join)
def test_nothing_of_a_hook_is_left_when_a_run_is_killed(
    up: Start, home: Path, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    """Not even a daemon of it, though SIGTERM is ignored."""
    ready = tmp_path / "ready"
    stubborn = f"trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 61' & touch {ready}; sleep 62"
    run = up(*GANG, f"--on-failure={stubborn}", ROLES, "--steps", "100000", "--fail", "worker:1:1:2:3")
    wait_until(ready.exists, 60, lambda: f"the hook; it printed:\n{run.output}")
    lose(run, victims)
    run.wait(20)
    wait_until(lambda: not processes_of(home), 10, lambda: f"nothing is left; there is {processes_of(home)}")


def test_a_second_ctrl_c_ends_the_wait_for_the_last_command(up: Start, home: Path) -> None:
    """Which says what it waits for."""
    run = up(*GANG, "--on-end", "sleep 60", ROLES, "--steps", "3")
    wait_until(lambda: "Waiting up to 30 s for the --on-end command; Ctrl-C ends it." in run.output, 60, "the wait")
    run.signal(signal.SIGINT)
    assert run.wait(20) == 0
    assert processes_of(home) == {}


def test_on_stand_ins_for_hosts(up: Start, tmp_path: Path) -> None:
    """The supervisor's side runs the commands there, too."""
    seen, gate = tmp_path / "seen", tmp_path / "gate"
    run = up(
        *GANG, "--hosts", "2", *every(f"cat >> {seen}"), ROLES, "--fail", "worker:1:1:7:-9", "--until", gate,
    )  # fmt: skip
    wait_until(lambda: len(told(seen)) >= 2, 60, lambda: f"the recovery; it printed:\n{run.output}")
    gate.touch()
    assert run.wait(90) == 0, run.output
    assert [one["event"] for one in told(seen)] == ["failure", "recovery", "end"]


def test_a_run_that_continues_tells_nothing_twice(up: Start, tmp_path: Path) -> None:
    """Its supervisor is killed after a failure; the next one has a recovery and an end."""
    seen, gate = tmp_path / "seen", tmp_path / "gate"
    job = (*GANG, "--run-id", "one", *every(f"cat >> {seen}"), ROLES, "--fail", "worker:1:1:7:3", "--until", gate)
    first = up(*job)
    wait_until(lambda: len(told(seen)) >= 2, 60, lambda: f"the recovery; it printed:\n{first.output}")
    os.kill(first.supervisor, signal.SIGKILL)
    first.wait(20)
    again = up("--continue", *job)
    wait_until(lambda: len(told(seen)) >= 3, 60, lambda: f"the recovery; it printed:\n{again.output}")
    gate.touch()
    assert again.wait(60) == 0, again.output
    assert [one["event"] for one in told(seen)] == ["failure", "recovery", "recovery", "end"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "--on-end '' is not a command."),
        ("  ", "--on-end '  ' is not a command."),
        ("x" * 30_001, "--on-end is longer than 30000 characters."),
    ],
)
def test_what_is_no_command_is_an_error(
    clusterkit: Callable[..., Command], tmp_path: Path, command: str, said: str
) -> None:
    """Before anything starts, with the other problems; from a job file, too."""
    flagged = clusterkit("up", "--workers", "-1", f"--on-end={command}", ROLES)
    assert flagged.wait(30) == 2
    assert said in flagged.output
    assert "--workers is -1" in flagged.output
    file = tmp_path / "job.toml"
    file.write_text(f'program = "{ROLES}"\non-end = {json.dumps(command)}\n')
    filed = clusterkit("up", "-f", str(file))
    assert filed.wait(30) == 2
    assert said in filed.output


def test_config_shows_them(clusterkit: Callable[..., Command]) -> None:
    """As keys of a job file."""
    shown = clusterkit("config", "--on-failure", "cat >> 'a b.jsonl'", "--on-end", "true", str(ROLES))
    assert shown.wait(30) == 0
    assert "on-failure = \"cat >> 'a b.jsonl'\"" in shown.output
    assert 'on-end = "true"' in shown.output


def test_without_hooks_no_process_runs_for_them(up: Start, home: Path) -> None:
    """Nor is there a log."""
    run = up("--workers", "1", ROLES, "--steps", "100000")
    run.wait_for_step(2)
    assert not [pid for pid in processes_of(home) if procfs.environ(pid).get("CLUSTERKIT_TASK") == "hooks"]
    assert not (run.run / "hooks.log").exists()
    run.signal(signal.SIGTERM)
    run.wait(20)

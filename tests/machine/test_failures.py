"""What happens when tasks fail, with programs that only play the roles: restarts, budgets, cause and collateral."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROLES = CHILDREN / "roles.py"
QUICK = ("--restart-backoff", "0.1", "--grace-period", "2")
PS_JOB = ("--workers", "2", "--ps", "1", *QUICK)
GANG = ("--workers", "3", *QUICK)
Start = Callable[..., Up]


def attempts(run: Up) -> dict[str, int]:
    """How often each task was started."""
    return {task: len(pids) for task, pids in run.pids().items()}


def started_again(run: Up, tasks: set[str], attempt: int = 2) -> None:
    """Wait until they are; the leader's last step waits for the test meanwhile."""
    for task in tasks:
        run.wait_for("Spawned", task=task, attempt=attempt)


@pytest.mark.parametrize(
    ("failing", "restarted"),
    [
        ("worker:0", {"worker:0"}),
        ("worker:1", {"worker:1"}),
        ("chief:0", {"chief:0"}),
        ("ps:0", {"ps:0", "chief:0"}),
    ],
)
def test_a_parameter_server_job_restarts_what_has_to_be(
    up: Start, tmp_path: Path, failing: str, restarted: set[str]
) -> None:
    """The failing task's row of the table restarts, nothing else, and the job ends at the step asked for."""
    run = up(*PS_JOB, ROLES, "--steps", "80", "--until", tmp_path / "go", "--fail", f"{failing}:1:20:-9")
    started_again(run, restarted)
    (tmp_path / "go").touch()
    assert run.wait(30) == 0
    assert {task for task, count in attempts(run).items() if count == 2} == restarted
    assert run.result["last_step"] == 80
    if "chief:0" in restarted:
        resumed = next(a for a in run.result["attempts"] if (a["task"], a["attempt"]) == ("chief:0", 2))
        known = [0, *(e["step"] for e in run.events("Checkpointed", attempt=1))]
        # The chief may be ended between saving a checkpoint, at every 5th step, and reporting it.
        assert resumed["resumed_step"] in (known[-1], known[-1] + 5)


def test_a_gang_restarts_together(up: Start, tmp_path: Path) -> None:
    """One worker of a multi-worker job fails: all of them start again, after the survivors are gone."""
    run = up(*GANG, ROLES, "--steps", "120", "--until", tmp_path / "go", "--fail", "worker:1:1:20:3")
    started_again(run, {"worker:0", "worker:1", "worker:2"})
    (tmp_path / "go").touch()
    assert run.wait(30) == 0
    assert attempts(run) == {"worker:0": 2, "worker:1": 2, "worker:2": 2}
    second = [e["m"] for e in run.events("Spawned", attempt=2)]
    assert min(second) > max(e["m"] for e in run.events("Swept", attempt=1))


def test_a_program_that_always_fails_uses_up_its_budget(up: Start) -> None:
    """It gets further each time; the cause block names task, attempt, exit code and the last lines."""
    later = [word for attempt in range(1, 5) for word in ("--fail", f"worker:0:{attempt}:{attempt + 1}:7")]
    run = up("--workers", "1", "--restart-backoff", "0.05", ROLES, *later)
    assert run.wait(30) == 1
    cause = run.result["cause"]
    assert (cause["task"], cause["attempt"], cause["exit"]["code"]) == ("worker:0", 4, 7)
    assert "Cause: worker:0 exited with code 7 (attempt 4)" in run.output
    assert "    │ worker:0 goes from step 0 to 20" in run.output.partition("Cause:")[2]
    assert attempts(run) == {"worker:0": 4}


def test_a_program_that_fails_at_the_same_step_is_started_twice(up: Start) -> None:
    """Its first restart came at once, since it had made steps; none of them was new after that."""
    run = up("--workers", "1", "--restart-backoff", "60", ROLES, *failures("worker:0", 4, code=7))
    assert run.wait(30) == 1
    assert attempts(run) == {"worker:0": 2}
    assert "worker:0 starts again at once (restart 1 of 3)." in run.output
    assert "It fails the same way each time, at step 1, as attempt 1 did." in run.output


@pytest.mark.parametrize(
    ("program", "last"),
    [
        ("import math; math.sqrt(-1)", "ValueError: math domain error"),
        ("raise SystemExit('There is no data.')", "There is no data."),
    ],
)
def test_a_program_that_fails_in_the_same_way_is_started_twice(
    up: Start, tmp_path: Path, program: str, last: str
) -> None:
    """Nothing changes by the third time; both workers raise it, and neither dies of the other."""
    (tmp_path / "train.py").write_text(program + "\n")
    run = up("--workers", "2", "--restart-backoff", "0.05", tmp_path / "train.py")
    assert run.wait(30) == 1
    assert attempts(run) == {"worker:0": 2, "worker:1": 2}
    assert "It fails the same way each time, before it reports a step, as attempt 1 did." in run.output
    assert run.result["cause"]["tail"][-1] == last
    assert run.result["repeated"]
    assert run.result["collateral"] == []


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("import tensorfow", []),
        ("open('data/train.csv')", []),
        ("import argparse; argparse.ArgumentParser().parse_args()", ["--epoch", "3"]),
    ],
)
def test_a_usage_error_is_not_restarted(up: Start, tmp_path: Path, program: str, arguments: list[str]) -> None:
    """One attempt, one traceback, and how to try again nevertheless; with a budget of the user's it is tried."""
    (tmp_path / "train.py").write_text(program + "\n")
    run = up("--workers", "2", "--no-check", tmp_path / "train.py", *arguments)
    assert run.wait(30) == 1
    assert attempts(run) == {"worker:0": 1, "worker:1": 1}
    assert run.result["usage_error"]
    assert "A restart would read the same. To try anyway: --restart-budget 1" in run.output
    again = ("--workers", "2", "--no-check", "--restart-backoff", "0.05", "--restart-budget", "1", "--run-id", "again")
    insists = up(*again, tmp_path / "train.py", *arguments)
    assert insists.wait(30) == 1
    assert attempts(insists) == {"worker:0": 2, "worker:1": 2}


def test_the_cause_is_the_task_that_failed_and_not_its_survivor(up: Start) -> None:
    """A survivor that dies of its peer before the peer's process is gone is collateral."""
    run = up("--workers", "2", "--restart", "never", CHILDREN / "peer_gone.py")
    assert run.wait(30) == 1
    assert run.result["cause"]["task"] == "worker:1"
    assert [failure["task"] for failure in run.result["collateral"]] == ["worker:0"]
    assert run.output.index("Cause: worker:1") < run.output.index("Collateral: worker:0")
    first = min(run.events("Exited"), key=lambda e: e["m"])
    assert first["task"] == "worker:0"


def test_exit_42_is_a_restart_that_costs_nothing(up: Start) -> None:
    """A preempted task starts again although the budget is 0."""
    run = up("--workers", "1", "--restart-budget", "0", *QUICK, ROLES, "--steps", "15", "--fail", "worker:0:1:7:42")
    assert run.wait(30) == 0
    assert attempts(run) == {"worker:0": 2}
    assert run.result["last_step"] == 15


FORGETFUL = """
import os, pathlib, time
if os.environ["CLUSTERKIT_ATTEMPT"] == "1":
    pathlib.Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"], "model.keras").write_text("x")
    raise SystemExit(1)
pathlib.Path(os.environ["CLUSTERKIT_PROGRESS"]).open("w").write('{"kind":"progress","attempt":2,"step":1}\\n')
until, journal = time.monotonic() + 20, pathlib.Path(os.environ["CLUSTERKIT_RUN_DIR"], "journal.jsonl")
while '"Warned"' not in journal.read_text() and time.monotonic() < until:
    time.sleep(0.05)
"""


def test_a_checkpoint_that_was_never_reported_is_found_beside_the_loop(up: Start, tmp_path: Path) -> None:
    """The program began again at step 0 although there was one, and is told so."""
    (tmp_path / "train.py").write_text(FORGETFUL)
    run = up("--workers", "1", *QUICK, tmp_path / "train.py")
    assert run.wait(60) == 0
    (found,) = run.events("CheckpointFound")
    assert (found["task"], found["attempt"], Path(found["path"]).name) == ("worker:0", 2, "model.keras")
    (warned,) = run.events("Warned")
    assert f"worker:0 started again at step 0 although the checkpoint {found['path']} was there" in warned["text"]


def test_two_faults_in_a_row(up: Start, tmp_path: Path) -> None:
    """The second fault hits the second attempt; the third one finishes."""
    fails = ("--fail", "ps:0:1:20:-9", "--fail", "chief:0:2:30:-9")
    run = up(*PS_JOB, ROLES, "--steps", "60", "--until", tmp_path / "go", *fails)
    started_again(run, {"chief:0"}, attempt=3)
    (tmp_path / "go").touch()
    assert run.wait(30) == 0
    assert attempts(run) == {"chief:0": 3, "worker:0": 1, "worker:1": 1, "ps:0": 2}


def test_a_fault_during_a_recovery(up: Start, tmp_path: Path) -> None:
    """A worker dies while ps and chief wait to start again; all three are recovered."""
    fails = ("--fail", "ps:0:1:20:-9", "--until", tmp_path / "go")
    run = up("--workers", "2", "--ps", "1", "--restart-backoff", "2", ROLES, "--steps", "50", *fails)
    run.wait_for("RestartPlanned")
    run.kill("worker:1", signal.SIGKILL)
    started_again(run, {"ps:0", "chief:0", "worker:1"})
    (tmp_path / "go").touch()
    assert run.wait(30) == 0
    assert attempts(run) == {"chief:0": 2, "worker:0": 1, "worker:1": 2, "ps:0": 2}


def test_a_program_that_forgets_to_resume_is_told(up: Start) -> None:
    """Starting again at step 0 beside a checkpoint is said aloud."""
    run = up("--workers", "1", *QUICK, ROLES, "--steps", "15", "--forget", "--fail", "worker:0:1:12:-9")
    assert run.wait(30) == 0
    warnings = [e["text"] for e in run.events("Warned")]
    assert any("started again at step 0 although the checkpoint" in text and "(step 10)" in text for text in warnings)


def test_servers_are_ended_after_success_and_that_is_no_failure(up: Start) -> None:
    """ps and workers of a parameter-server job never return; their end is part of the job's success."""
    run = up(*PS_JOB, ROLES, "--steps", "5")
    assert run.wait(30) == 0
    ended = {a["task"]: a["exit"]["asked"] for a in run.result["attempts"]}
    assert ended["chief:0"] is None
    assert {ended[task] for task in ("worker:0", "worker:1", "ps:0")} == {"ended after the job's success"}


def failures(task: str, count: int, code: int) -> list[str]:
    """Options that let the first attempts of a task fail at their second step."""
    return [word for attempt in range(1, count + 1) for word in ("--fail", f"{task}:{attempt}:2:{code}")]

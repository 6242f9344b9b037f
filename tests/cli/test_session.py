"""A session as a person types it, and as a program does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import JOB, ROLES, Clusterkit, wait_for
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

TASKS = ("chief:0", "worker:0", "worker:1", "ps:0")


def wait_for_log(run: Path, task: str, words: bytes) -> None:
    """Wait until a task's log has it: that the task is ready comes by another way."""
    wait_until(lambda: words in (run / "tasks" / task / "attempt-1.log").read_bytes(), 10, f"{task} says {words!r}")


def test_a_session_by_hand(ck: Clusterkit, tmp_path: Path) -> None:
    """A run comes up, is looked at, loses a worker, gets it back, succeeds, and is removed."""
    up = ck("up", "-d", *JOB, ROLES, "--steps", "200", "--until", tmp_path / "go")
    run = up.out.strip()
    assert up.out == f"{run}\n"
    assert up.err.count("is ready") == 4
    *rows, now = ck("ps").out.splitlines()
    assert now.startswith(("Training: ", "Starting: "))
    assert rows[0].split()[:4] == ["TASK", "STATE", "ATTEMPT", "PID"]
    assert [row.split()[:3] for row in rows[1:]] == [[task, "running", "1"] for task in TASKS]
    wait_for_log(ck.home / "runs" / run, "chief:0", b"goes from")
    assert ck("logs", "--tail", "1", "chief").out == "chief:0 │ chief:0 goes from step 0 to 200\n"
    assert ck("kill", "worker:1").out == "worker:1 got SIGKILL.\n"
    wait_for(ck.home / "runs" / run, "Changed", task="worker:1", attempt=2, state="running")
    worker = next(row for row in ck("ps").out.splitlines() if row.startswith("worker:1"))
    assert worker.split()[1:3] == ["running", "2"]
    assert worker.endswith("was killed by SIGKILL")
    (tmp_path / "go").touch()
    assert ck("wait").out == f"The run {run} succeeded (exit code 0).\n"
    shown = ck("show").out
    assert f"run {run} succeeded" in shown
    assert "worker:1 was killed by SIGKILL (attempt 1)." in shown.partition("Timeline")[2]
    assert ck("rm", "--prefix", run[:-1]).out == f"{run}\n"
    assert len(ck("ls").out.splitlines()) == 1


def test_a_session_as_json(ck: Clusterkit, tmp_path: Path) -> None:
    """The same for programs: every command that prints data prints it as JSON."""
    run = ck.up(*JOB, ROLES, "--steps", "200", "--until", tmp_path / "go").name
    ps = ck.json("ps")
    assert (ps["run_id"], ps["state"]) == (run, "running")
    assert [(row["task"], row["attempt"], row["state"]) for row in ps["tasks"]] == [(t, 1, "running") for t in TASKS]
    wait_for_log(ck.home / "runs" / run, "chief:0", b"goes from")
    (line,) = ck.lines("logs", "--tail", "1")
    assert (line["task"], line["attempt"], line["line"]) == ("chief:0", 1, "chief:0 goes from step 0 to 200")
    assert ck.json("kill", "worker:1")["tasks"] == ["worker:1"]
    worker = wait_until(
        lambda: (row := ck.task("worker:1"))["attempt"] == 2 and row["state"] == "running" and row, 20, "attempt 2"
    )
    assert worker["last_exit"]["signal"] == 9
    (row,) = ck.json("ls")
    assert (row["run_id"], row["state"], row["attempts"], row["restarts"]) == (run, "running", 5, 1)
    assert {event["event"] for event in ck.lines("events")} >= {"Began", "Spawned", "Requested", "Failed"}
    (tmp_path / "go").touch()
    over = {"run_id": run, "state": "succeeded", "exit_code": 0}
    assert ck.json("wait") == {**over, "reservations": [], "not_injected": []}
    shown = ck.json("show")
    assert (shown["state"], shown["result"]["exit_code"], shown["result"]["last_step"]) == ("succeeded", 0, 200)
    assert [line["text"] for line in shown["timeline"] if "SIGKILL" in line["text"]]
    assert ck.json("rm", run) == {"removed": [run]}
    assert ck.json("ls") == []


def test_a_fault_that_was_never_injected_is_told_everywhere(ck: Clusterkit) -> None:
    """By `up`, `wait`, `show`, `events` and result.json: the job succeeded and proved nothing, which is exit code 3."""
    fault, why = "kill worker:0 @ step=1000", "step 1000 was never reached; the last step was 5"
    told = ck("up", "--run-id", "r", "--fault", fault, ROLES, "--steps", "5", code=3).out
    assert "! run r succeeded after " in told
    assert f"  Never injected: {fault}: {why}.\n" in told
    assert ck("show", "r").out.splitlines()[1] == f"  Never injected: {fault}: {why}."
    wait = ck("wait", "r", code=3).out
    reason = "worker:0 exited with code 0, but a fault that was asked for was never injected."
    assert wait == f"The run r succeeded (exit code 3).\n{reason}\nNever injected: {fault}: {why}.\n"
    assert ck.json("wait", "r", code=3)["reservations"] == ["faults"]
    missed = [{"fault": fault, "why": why}]
    assert ck.json("wait", "r", code=3)["not_injected"] == missed
    assert ck.json("show", "r")["result"]["not_injected"] == missed
    assert "but a fault that was asked for was never injected." in ck("events", "r").out

"""The commands that act on tasks, and what they refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands import JOB, ROLES, Clusterkit, journal, wait_for
from tests.support import CHILDREN, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

LONG = (*JOB, ROLES, "--steps", "100000")


def test_kill_takes_a_signal_and_a_type_of_tasks(ck: Clusterkit) -> None:
    """SIGTERM for every worker, by the name of the type; what they die of is a failure as any other."""
    run = ck.up(*LONG)
    assert ck("kill", "-s", "term", "worker").out == "worker:0 got SIGTERM.\nworker:1 got SIGTERM.\n"
    for task in ("worker:0", "worker:1"):
        assert wait_for(run, "Exited", task=task)["exit"]["signal"] == 15
        wait_for(run, "Spawned", task=task, attempt=2)
    assert not journal(run, "Exited", task="chief:0")
    assert ck.json("kill", "-s", "CONT", "all")["tasks"] == ["chief:0", "worker:0", "worker:1", "ps:0"]


def test_what_can_not_be_done_is_a_sentence_and_an_exit_code(ck: Clusterkit) -> None:
    """1 for what the run refuses or has not, 2 for what nobody could mean."""
    assert ck("kill", "worker:1", code=2).err.startswith("clusterkit: No run is live.")
    run = ck.up("--workers", "2", ROLES, "--steps", "100000")
    assert ck("kill", "worker:7", code=2).err == f"clusterkit: The run {run.name} has no task worker:7.\n"
    assert ck("kill", "ps", code=2).err == f"clusterkit: The run {run.name} has no task of the type ps.\n"
    assert ck("unpause", "worker:0", code=1).err == "clusterkit: worker:0 is not paused now.\n"
    assert ck("stacks", "--run", "nosuch", code=2).err.startswith("clusterkit: There is no run 'nosuch'")
    assert "'wroker:1' is neither a run nor a task" in ck("kill", "wroker:1", code=2).err
    assert "is not a signal" in ck("kill", "-s", "FOO", "worker:1", code=2).err
    assert ck("pause", code=2).err


def test_a_paused_task_stands_still_until_it_is_unpaused(ck: Clusterkit) -> None:
    """`ps` shows it; its process is stopped."""
    run = ck.up(*LONG)
    pid = wait_for(run, "Spawned", task="worker:0")["pid"]
    stat = Path(f"/proc/{pid}/stat")
    assert ck("pause", "worker:0").out == "worker:0 is paused.\n"
    wait_until(lambda: " T " in stat.read_text(), 10, "worker:0 is stopped")
    row = ck.task("worker:0")
    assert (row["state"], row["paused"], row["pid"]) == ("paused", True, pid)
    assert ck("unpause", "all").out == "worker:0 resumed.\n"
    wait_until(lambda: " T " not in stat.read_text(), 10, "worker:0 goes on")
    assert ck.task("worker:0")["state"] == "running"


def test_ls_says_what_a_run_does_now(ck: Clusterkit) -> None:
    """It trains; once all of its tasks are paused, it is paused."""
    wait_for(ck.up(*LONG), "Progressed")
    assert (ck.json("ls")[0]["state"], ck.json("ls")[0]["now"]) == ("running", "training")
    ck("pause", "all")
    wait_until(lambda: ck.json("ls")[0]["now"] == "paused", 10, "the run is paused")
    assert " paused " in ck("ls").out
    ck("unpause", "all")


def test_a_restart_that_was_asked_for_costs_no_budget(ck: Clusterkit) -> None:
    """Three of them with a budget of none; each returns when the new attempts are there."""
    run = ck.up("--restart-budget", "0", *LONG)
    for attempt in (2, 3, 4):
        assert ck("restart", "worker:1").out == "worker:1 restarted.\n"
        assert ck.task("worker:1")["attempt"] == attempt
    assert ck.json("restart", "ps")["tasks"] == ["chief:0", "ps:0"]
    assert [event["charged"] for event in journal(run, "RestartPlanned")] == [0, 0, 0, 0]
    assert ck.task("ps:0")["last_exit"]["text"] == "stopped to restart, on request (SIGTERM)"


@pytest.mark.parametrize(
    ("shape", "asked", "restarted"),
    [
        (["--workers", "1"], "worker:0", ["worker:0"]),
        (["--workers", "2"], "worker:1", ["worker:0", "worker:1"]),
        (["--workers", "1", "--ps", "1"], "ps:0", ["chief:0", "ps:0"]),
    ],
)
def test_a_program_that_exits_with_0_on_sigterm_is_restarted(
    ck: Clusterkit, shape: list[str], asked: str, restarted: list[str]
) -> None:
    """It has obeyed, which is not to say that the job is done."""
    run = ck.up(*shape, CHILDREN / "stubborn.py", "obey")
    assert ck.json("restart", asked)["tasks"] == restarted
    (planned,) = journal(run, "RestartPlanned")
    assert planned["tasks"] == restarted
    assert journal(run, "Exited", task=restarted[0])[0]["reached"] == [15]
    assert not journal(run, "Succeeded")
    assert {name: ck.task(name)["attempt"] for name in restarted} == dict.fromkeys(restarted, 2)


def test_the_stacks_of_a_blocked_task_leave_it_as_it_was(ck: Clusterkit, tmp_path: Path) -> None:
    """Every thread's, also of one that waits inside C; then the task goes on and ends well."""
    os.mkfifo(tmp_path / "pipe")
    run = ck.up("--cwd", tmp_path, CHILDREN / "busy.py", "read")
    wait_until(lambda: b"busy" in (run / "tasks/worker:0/attempt-1.log").read_bytes(), 10, "it reads")
    stacks = ck("stacks").out
    assert stacks.startswith("worker:0 (attempt 1)\n")
    assert "in a_thread" in stacks
    (tmp_path / "pipe").write_bytes(b"enough")
    assert ck("wait", run.name).code == 0
    assert (run / "tasks/worker:0/attempt-1.log").read_bytes() == b"busy\ndone\n"


def test_stacks_are_shown_of_the_tasks_that_can_tell(ck: Clusterkit) -> None:
    """Twice in a row there are two dumps, each with its own; a stopped task gets a sentence."""
    ck.up(*LONG)
    ck("pause", "worker:1")
    for _ in range(2):
        assert ck.json("stacks", "--timeout", "20", "worker:0")["worker:0"].count("most recent call first") == 1
    assert ck.json("stacks", "--timeout", "0.5", "worker:0", "worker:1")["worker:1"] is None
    assert ck("stacks", "--timeout", "0.5", "worker:1").out == "worker:1 does not answer. Is it paused?\n\n"


def test_a_task_that_is_no_python_program_says_no_stacks(ck: Clusterkit) -> None:
    """It is not signalled, since it would die of that."""
    ck.up("/bin/sleep", "60")
    assert ck("stacks").out == "worker:0 has no stacks: it is not a Python program, or has only just started.\n\n"
    assert ck.task("worker:0")["state"] == "running"

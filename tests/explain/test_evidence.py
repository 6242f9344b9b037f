"""What is known of a run: its logs, and the report about tasks that hang at startup."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from clusterkit.backends.local.hang_inspector import InspectedAttempt, report_of
from clusterkit.explain.evidence import evidence_of, has_own_error, stuck_tasks
from clusterkit.explain.row import StuckTask
from clusterkit.store.directory import RunDirectory
from clusterkit.system.process import AttemptChild
from clusterkit.words.account import Startup, TaskStart
from clusterkit.words.model import ProgramKind, Task, TaskType
from clusterkit.words.outcome import Asked, AttemptEnded, Exit, Failure, FailureRole, RoleKind, RunResult, RunState
from clusterkit.words.reports import Vitals
from tests.histories import build_job

FIRST, SECOND = Task(TaskType.WORKER, 0), Task(TaskType.WORKER, 1)
PLACES = {FIRST: "127.0.0.1:4000", SECOND: "127.0.0.1:4001"}
ERROR = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "KeyError: 'x'"]


def looked_at(task: Task, listens: frozenset[int], listening: bool, doing: str) -> InspectedAttempt:
    """A task as an inspection finds it."""
    child = AttemptChild(1, -1, "", 0)
    return InspectedAttempt(task, 1, child, Vitals(1, listening, "S", doing), PLACES[task], ports=listens)


def test_the_report_about_a_startup_is_read_as_it_was_written() -> None:
    """Two tasks that both say that they are worker:0; one listens at a port of its own too."""
    report = report_of(
        "not connected after 120 s",
        [
            looked_at(FIRST, frozenset({4000, 2222}), True, "waits in Server.join"),
            looked_at(SECOND, frozenset({4000}), False, "waits in Server.join"),
        ],
    )
    assert list(stuck_tasks(report)) == [
        StuckTask(FIRST, "waits in Server.join", "", "127.0.0.1:4000", True, ("port 2222", "worker:0")),
        StuckTask(SECOND, "waits in Server.join", "", "127.0.0.1:4001", False, ("worker:0",)),
    ]


def test_the_line_of_the_program_is_where_it_is_stuck() -> None:
    """The innermost frame of the program's own, whatever it is called from."""
    stack = ["  main thread, innermost first", "    /usr/lib/python3.12/site-packages/tf/x.py:9 in wait"]
    report = "\n".join(["worker:1 waits", *stack, "    /home/u/train.py:12 in make", "    /home/u/train.py:40 in main"])
    (stuck,) = stuck_tasks(report)
    assert stuck.where == "train.py:12"


def test_where_other_threads_run_the_programs_code() -> None:
    """As in a generator that the task waits for."""
    report = (
        "worker:1 waits\n  listens      nowhere\n  thread at    data.py:8 in rows\n  thread at    log.py:3 in run\n"
    )
    (stuck,) = stuck_tasks(report)
    assert stuck.threads == ("data.py:8 in rows", "log.py:3 in run")


@given(some.text())
def test_any_text_is_a_report(text: str) -> None:
    """A task chooses the names of its files and functions."""
    list(stuck_tasks(text))
    list(
        stuck_tasks(
            f"worker:1 {text}\n  endpoint     {text}\n  listens      {text}\n  thread at    {text}\n"
            f"    /{text}:1 in {text}\n"
        )
    )


@pytest.mark.parametrize(
    ("exit_", "has"),
    [
        (Exit(code=1), True), (Exit(code=2), True), (Exit(signal=6), True), (Exit(signal=11), True),
        (Exit(signal=9), False), (Exit(signal=9, out_of_memory=True), False), (Exit(code=0), False),
        (Exit(code=42), False), (Exit(error="no such file"), False), (Exit(host="a"), False), (Exit(lost=True), False),
        (Exit(code=1, asked=Asked.STALL), False), (Exit(code=137), False),
    ],
)  # fmt: skip
def test_which_ends_the_log_explains(exit_: Exit, has: bool) -> None:
    """Not those that somebody else wanted."""
    assert has_own_error(exit_) is has


JOB = build_job({"workers": 2, "program": "train.py"}, ProgramKind.SCRIPT)


def run_in(place: Path) -> RunDirectory:
    """A run directory with a log of worker:1."""
    run = RunDirectory(place)
    run.of_task(SECOND).mkdir(parents=True)
    run.log(SECOND, 1).write_text("\n".join(["step 1", *ERROR, ""]))
    return run


def test_the_log_of_the_cause_is_read_and_the_others_are_known(tmp_path: Path) -> None:
    """Their steps, ends and connections, whether they failed or not."""
    run = run_in(tmp_path)
    cause = Failure(SECOND, 1, Exit(code=1), 3.0, ("KeyError: 'x'",), "KeyError: 'x'", 7)
    ended = [AttemptEnded(task, 1, 0.0, 3.0, Exit(code=1), 1, 9, None, None) for task in (FIRST, SECOND)]
    result = RunResult(RunState.FAILED, 1, "", cause, attempts=tuple(ended))
    startup = Startup((TaskStart(FIRST, connected=1.0), TaskStart(SECOND)))
    evidence = evidence_of(run, result, JOB, startup)
    assert evidence.first.text == "\n".join(ERROR)
    assert evidence.first.before == "step 1"
    assert [(task.task, task.step, task.connected) for task in evidence.tasks] == [
        (SECOND, 7, False), (FIRST, 9, True),
    ]  # fmt: skip
    assert evidence.stuck == ()


def test_a_failure_that_the_run_recovered_from(tmp_path: Path) -> None:
    """Its log is read; an injected fault needs no explanation."""
    run = run_in(tmp_path)
    role = FailureRole(RoleKind.CAUSE, SECOND, 1)
    for fault, text in ((None, "\n".join(ERROR)), (1, "")):
        attempt = AttemptEnded(SECOND, 1, 0.0, 3.0, Exit(code=1), 1, 9, None, None, fault, role)
        result = RunResult(RunState.SUCCEEDED, 0, "", attempts=(attempt,), restarts=1)
        assert evidence_of(run, result, JOB, None).first.text == text


def test_the_reports_about_a_start_that_hung(tmp_path: Path) -> None:
    """Of every host; none of them counts if a task failed, and a pipe in a report's place is no report."""
    run = RunDirectory(tmp_path)
    run.all_stacks.mkdir()
    (run.all_stacks / "startup-1.txt").write_text(f"why\n\n{FIRST} waits\n")
    (run.all_stacks / "host_2-startup-1.txt").write_text(f"why\n\n{SECOND} waits\n")
    (run.all_stacks / "startup-2.txt").symlink_to("/etc/passwd")
    hung = RunResult(RunState.FAILED, 1, "nothing opened a port")
    assert {stuck.task for stuck in evidence_of(run, hung, JOB, None).stuck} == {FIRST, SECOND}
    failed = RunResult(RunState.FAILED, 1, "", Failure(FIRST, 1, Exit(signal=9), 0.0))
    assert evidence_of(run, failed, JOB, None).stuck == ()


def test_the_newest_report_about_a_stall(tmp_path: Path) -> None:
    """Where each task was before one was ended for it."""
    run = RunDirectory(tmp_path)
    run.all_stacks.mkdir()
    for number, doing in ((9, "sleeps"), (10, "waits")):
        (run.all_stacks / f"stall-{number}.txt").write_text(f"why\n\n{FIRST} {doing}\n")
    cause = Failure(FIRST, 1, Exit(signal=9, asked=Asked.STALL), 0.0)
    (stuck,) = evidence_of(run, RunResult(RunState.FAILED, 1, "", cause), JOB, None).stuck
    assert stuck.doing == "waits"


def test_the_report_about_a_run_that_hung_until_its_timeout(tmp_path: Path) -> None:
    """An earlier report about its start does not count."""
    run = RunDirectory(tmp_path)
    run.all_stacks.mkdir()
    for name in ("startup", "timeout"):
        (run.all_stacks / f"{name}-1.txt").write_text(f"why\n\n{FIRST} is seen at its {name}\n")
    (stuck,) = evidence_of(run, RunResult(RunState.TIMED_OUT, 124, "too long"), JOB, None).stuck
    assert stuck.doing == "is seen at its timeout"


def test_the_log_of_the_leader(tmp_path: Path) -> None:
    """That of its last attempt, if no task failed with an error of its own."""
    run = RunDirectory(tmp_path)
    run.of_task(FIRST).mkdir(parents=True)
    run.log(FIRST, 2).write_text("step 1\nWARNING: slow\n")
    ended = tuple(AttemptEnded(FIRST, number, 0.0, 3.0, Exit(code=0), 1, 9, None, None) for number in (1, 2))
    done = RunResult(RunState.SUCCEEDED, 0, "", attempts=ended, short=True)
    evidence = evidence_of(run, done, JOB, None)
    assert (evidence.log, evidence.short) == ("step 1\nWARNING: slow", True)
    assert evidence_of(RunDirectory(tmp_path / "gone"), done, JOB, None).log == ""
    failed = RunResult(RunState.FAILED, 1, "", Failure(SECOND, 1, Exit(code=1), 0.0), attempts=ended)
    assert evidence_of(run, failed, JOB, None).log == ""

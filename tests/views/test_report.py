"""The final report as text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from clusterkit.store.directory import RunDirectory
from clusterkit.store.paths import RunPaths
from clusterkit.store.usage import UsageLog, UsageSample
from clusterkit.views.recoveries import recovery_lines
from clusterkit.views.report import report
from clusterkit.words.account import Death, InjectedFault, Recovery, RecoveryReport, Return
from clusterkit.words.faults import FaultAction
from clusterkit.words.outcome import Asked, AttemptEnded, Exit, Failure, RunResult, RunState
from tests.histories import task

RUN = RunPaths(PurePath("/state/runs/r-1"))
WORKER, OTHER, CHIEF = task("worker:1"), task("worker:0"), task("chief:0")
TAIL = tuple(f"line {number}" for number in range(40))
CAUSE = Failure(WORKER, 4, Exit(code=1), 9.0, (*TAIL, "ValueError: my bug"), "ValueError: my bug")
PEER = Failure(OTHER, 4, Exit(signal=6), 9.5, ("Socket closed",))


def attempt(name: str, number: int, exit_: Exit, step: int | None = None, resumed: int | None = None) -> AttemptEnded:
    """One attempt, which resumed from a checkpoint where it resumed."""
    path = None if resumed is None else f"/c/ckpt-{resumed}"
    return AttemptEnded(task(name), number, 0.0, 1.0, exit_, None, step, resumed, path)


SUCCESS = RunResult(
    state=RunState.SUCCEEDED,
    exit_code=0,
    reason="chief:0 exited with code 0",
    cause=None,
    collateral=(),
    attempts=(
        attempt("chief:0", 1, Exit(signal=9), 120),
        attempt("chief:0", 2, Exit(code=0), 400, 100),
        attempt("worker:0", 1, Exit(signal=15, asked=Asked.SUCCESS)),
    ),
    restarts=1,
    last_step=400,
    duration=200.0,
)
FAILURE = RunResult(
    state=RunState.FAILED,
    exit_code=1,
    reason="worker:1 exited with code 1, and its restart budget is used up (3 of 3)",
    cause=CAUSE,
    collateral=(PEER,),
    attempts=(attempt("worker:0", 4, Exit(signal=6)), attempt("worker:1", 4, Exit(code=1), 7)),
    restarts=3,
    last_step=7,
    duration=42.0,
)


def lines(result: RunResult, width: int = 100, recovered: RecoveryReport | None = None) -> list[str]:
    """The report without colors."""
    text = report(result, RUN, color=False, width=width, recovered=recovered)
    return [line.rstrip() for line in text.splitlines()]


def test_a_success_is_told_in_its_first_line() -> None:
    """Run, time, step and restarts; then a row for each task and where everything is."""
    text = lines(SUCCESS)
    assert text[0].startswith("✔ run r-1 succeeded after 3 min 20 s · step 400 · 1 restart ─")
    assert [line.split() for line in text[2:4]] == [
        ["chief:0", "2", "400", "100", "exited", "with", "code", "0"],
        ["worker:0", "1", "stopped:", "the", "job", "had", "succeeded", "(SIGTERM)"],
    ]
    assert text[-1] == "  Last checkpoint resumed from: /c/ckpt-100. Everything of this run is in /state/runs/r-1"
    assert "Cause" not in "\n".join(text)


def test_a_directory_that_was_removed_has_nothing_of_the_run(tmp_path: Path) -> None:
    """Nor can the run be resumed from there."""
    gone = RunDirectory(tmp_path / "r-1")
    for result in (SUCCESS, replace(FAILURE, checkpoint="/c/ckpt-7"), replace(SUCCESS, state=RunState.SUSPENDED)):
        text = report(result, gone, color=False, width=100)
        assert f"The directory of this run was removed, with its logs and checkpoints: {gone.path}" in text
        assert not re.search("Everything of this run|Resume with|Continue with", text)


def test_a_failure_names_the_cause_first_and_then_the_collateral() -> None:
    """The cause with the end of its log and where the rest is; one line for each that died of it."""
    text = lines(FAILURE)
    assert text[0].startswith("✘ run r-1 failed after 42 s · step 7 · 3 restarts ─")
    assert text[1] == "  Cause: worker:1 exited with code 1 (attempt 4)"
    assert text[2:22] == [f"    │ {line}" for line in CAUSE.tail[-20:]]
    assert text[21] == "    │ ValueError: my bug"
    assert text[22] == "    its log: /state/runs/r-1/tasks/worker:1/attempt-4.log"
    assert text[23] == "  Collateral: worker:0 was killed by SIGABRT (attempt 4)"
    assert "Socket closed" not in "\n".join(text)


def test_a_failure_that_repeats_itself_says_so() -> None:
    """Below the log of the cause; a run without restarts has no attempt before."""
    text = lines(replace(FAILURE, repeated=True))
    said = "It fails the same way each time, before it reports a step, as attempt 3 did."
    assert text[23] == f"    {said}"
    assert text[24].startswith("  Collateral: ")
    assert said not in "\n".join(lines(FAILURE))


def test_tasks_that_failed_as_the_cause_did_are_no_collateral() -> None:
    """They come before it, with one line each."""
    twin = replace(CAUSE, task=task("worker:2"), attempt=3)
    text = lines(replace(FAILURE, same=(twin,)))
    assert text[23:25] == [
        "  Same error: worker:2 exited with code 1 (attempt 3)",
        "  Collateral: worker:0 was killed by SIGABRT (attempt 4)",
    ]


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        (RunState.STOPPED, 130, "clusterkit got SIGINT"),
        (RunState.TIMED_OUT, 124, "the job took longer than its timeout of 60 s"),
        (RunState.FAILED, 1, "the journal could not be written: No space left on device"),
    ],
)
def test_an_end_without_a_cause_has_its_reason(state: RunState, code: int, reason: str) -> None:
    """A stop, a timeout, a full disk."""
    text = lines(replace(SUCCESS, state=state, exit_code=code, reason=reason))
    assert text[0].startswith(f"✘ run r-1 {state} after ")
    assert text[1] == f"  Reason: {reason}."


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    """Logs and errors may hold brackets and colons that mean something elsewhere."""
    error = Exit(error="no file [/x/y] or [bold]z[/bold] :smile:")
    cause = replace(CAUSE, exit=error, tail=("[red]tail[/red] [/] :boom:",))
    result = replace(FAILURE, cause=cause, attempts=(attempt("worker:1", 1, error),))
    text = "\n".join(lines(result, width=200))
    assert "│ [red]tail[/red] [/] :boom:" in text
    assert text.count("could not be started: no file [/x/y] or [bold]z[/bold] :smile:") == 2


def test_a_task_that_was_never_started_has_no_log_to_look_at() -> None:
    """The path of a log that does not exist helps nobody."""
    cause = Failure(WORKER, 1, Exit(error="no such file"), 1.0)
    assert not [line for line in lines(replace(FAILURE, cause=cause)) if "its log" in line]


def test_a_long_line_of_the_log_is_not_broken() -> None:
    """It can be copied as one, and found again in the log."""
    cause = replace(CAUSE, tail=("x" * 300,))
    assert f"    │ {'x' * 300}" in lines(replace(FAILURE, cause=cause), width=80)


def test_colors_only_where_they_are_wanted() -> None:
    """A report in a file has no escape sequences."""
    assert "\x1b[" in report(FAILURE, RUN, color=True, width=100)
    assert "\x1b" not in report(FAILURE, RUN, color=False, width=100)


def injected(number: int, text: str, at: float, healed: float | None = None) -> InjectedFault:
    """A fault of worker:1 that was injected."""
    action = FaultAction(text.split()[0])
    return InjectedFault(number, text, action, (WORKER,), (), None, 100, at, healed=healed)


KILLED = Recovery(
    at=12.34,
    asked=False,
    cause=Death(WORKER, 1, 12.35, Exit(signal=9), fault=1),
    collateral=(),
    faults=(1,),
    detected=12.36,
    planned=12.36,
    returns=(Return(WORKER, 2, 12.4, 12.74),),
    training=False,
    went_on=False,
    first_step=13.24,
    last_step=None,
    resumed_step=None,
    checkpoint=None,
    lost=0,
    ended=12.74,
)
PS = replace(
    KILLED,
    at=40.1,
    cause=Death(task("ps:0"), 1, 40.1, Exit(signal=9)),
    faults=(),
    detected=40.1,
    returns=(Return(task("chief:0"), 2, 41.0, 42.5), Return(task("ps:0"), 2, 41.0, 42.0)),
    training=True,
    first_step=43.3,
    last_step=245,
    resumed_step=200,
    checkpoint="/c/ckpt-200",
    lost=45,
    ended=43.3,
)
RECOVERED = RecoveryReport(
    (KILLED, PS),
    (
        replace(injected(1, "kill worker:1 @ step=100", 12.34), died=(WORKER,)),
        replace(injected(2, "stop worker:1 for=10s", 60.0, 70.0), went_on=True),
    ),
)


def test_the_recoveries_are_a_table() -> None:
    """What, and from its beginning: seen, back, training again; what was lost, and where it went on from."""
    assert recovery_lines(RECOVERED) == [
        "  recoveries  what                      detected  restarted      up  new step  lost  from",
        "   at 12.3 s  kill worker:1 @ step=100    +0.0 s  worker:1   +0.4 s    +0.9 s     0",
        "   at 40.1 s  ps:0 was killed by          +0.0 s  chief:0    +2.4 s    +3.2 s    45  ckpt-200",
        "              SIGKILL                             ps:0",
        "   at 60.0 s  stop worker:1 for=10s            —  nothing             went on     0  healed +10.0 s",
    ]


def test_a_run_in_which_nothing_went_wrong_has_no_table() -> None:
    """No titles without rows either."""
    assert recovery_lines(RecoveryReport()) == []
    assert report(SUCCESS, RUN, color=False, recovered=RecoveryReport()) == report(SUCCESS, RUN, color=False)


def test_the_table_is_in_the_report() -> None:
    """After the tasks, its titles as dim as theirs."""
    text = report(SUCCESS, RUN, color=True, width=100, recovered=RECOVERED).splitlines()
    titles = next(number for number, line in enumerate(text) if "recoveries" in line)
    assert text[titles].startswith("\x1b[2m  recoveries")
    assert [line.split()[0] for line in text[titles - 2 : titles]] == ["chief:0", "worker:0"]
    assert len(text) == titles + len(recovery_lines(RECOVERED)) + 1


NEVER = replace(PS, returns=(), planned=None, first_step=None, ended=None, lost=None)


def test_a_run_that_never_recovered_says_so_instead_of_a_table() -> None:
    """A table of dashes tells nothing; the faults that it died of are named."""
    text = lines(FAILURE, recovered=RecoveryReport((NEVER,)))
    assert text[-2] == "  The job did not recover: no new step after 3 restarts."
    assert "recoveries" not in "\n".join(text)
    killed = replace(NEVER, cause=KILLED.cause, faults=(1,))
    text = lines(replace(FAILURE, restarts=0), recovered=RecoveryReport((killed,), RECOVERED.faults))
    assert "  The job did not recover from kill worker:1 @ step=100: nothing was restarted." in text
    assert text[-3].startswith("  recoveries  what ")
    assert "stop worker:1 for=10s" in text[-2]


@pytest.mark.parametrize(
    ("result", "recoveries"),
    [
        (FAILURE, (KILLED, NEVER)),
        (FAILURE, (replace(NEVER, went_on=True),)),
        (SUCCESS, (NEVER,)),
        (FAILURE, ()),
    ],
)
def test_a_run_that_recovered_once_has_its_table(result: RunResult, recoveries: tuple[Recovery, ...]) -> None:
    """So has one that went on without what had failed; a program that reports no steps may succeed all the same."""
    text = lines(result, recovered=RecoveryReport(recoveries, RECOVERED.faults))
    assert any(line.startswith("  recoveries  what ") for line in text)
    assert "did not recover" not in "\n".join(text)


@pytest.mark.parametrize(
    ("recovery", "cells"),
    [
        (replace(KILLED, went_on=True, first_step=None), ["worker:1", "+0.4 s", "went on", "0"]),
        (replace(PS, returns=(), planned=None, first_step=None, lost=None), ["nothing", "—", "—", "—"]),
        (replace(PS, cause=None, asked=True, detected=None), ["restarted as asked", "      —"]),
        (replace(PS, cause=None, asked=True, files=("train.py",)), ["train.py changed"]),
        (replace(PS, checkpoint=None, resumed_step=0), ["step 0"]),
        (replace(PS, detected=10.1), ["  +0.0 s"]),  # it stalled, and was killed for that later
        (
            replace(PS, checkpoint=None, resumed_step=None, at=4000.0, first_step=5000.0),
            ["at 1 h 6 min", "+16 min 40 s"],
        ),
    ],
)
def test_the_cells_of_a_recovery(recovery: Recovery, cells: list[str]) -> None:
    """What is not known is a dash; what has no resumption has none."""
    faults = RECOVERED.faults[:1] if recovery.faults else ()
    row = recovery_lines(RecoveryReport((recovery,), faults))[1]
    for cell in cells:
        assert f"  {cell}" in row


def test_a_second_recovery_from_one_fault_begins_with_its_death() -> None:
    """The fault is named, and its heal told once."""
    fault = injected(1, "partition worker:1 for=9s", 10.0, 19.0)
    deaths = [Death(WORKER, number, 12.0 * number, Exit(code=1), fault=1) for number in (1, 2)]
    both = [replace(PS, at=at, cause=death, faults=(1,)) for at, death in zip((10.0, 24.0), deaths, strict=True)]
    text = "\n".join(recovery_lines(RecoveryReport(tuple(both), (fault,))))
    assert text.count("healed") == 1
    assert "at 24.0 s  worker:1 exited with" in text
    assert text.count("still of") == 1


def test_the_table_fits_into_100_columns() -> None:
    """Also with long causes and many tasks; a run of some minutes."""
    many = tuple(Return(task(f"worker:{index}"), 2, 260.0, 270.0) for index in range(8))
    exit_ = Exit(signal=9, out_of_memory=True)
    wide = replace(PS, at=251.2, cause=Death(WORKER, 1, 251.2, exit_), returns=many, first_step=280.0, lost=1234)
    rows = recovery_lines(RecoveryReport((wide, KILLED), (injected(1, "slow worker:1 share=20% for=2s", 1.0, 3.0),)))
    assert max(map(len, rows)) <= 100
    assert any("  worker:0-7  " in row for row in rows)


@pytest.mark.parametrize(
    ("exit_", "tail", "told"),
    [
        (Exit(signal=9, out_of_memory=True), (), True),
        (Exit(signal=9), (), True),
        (Exit(code=1), ("MemoryError",), True),
        (Exit(code=1), ("ResourceExhaustedError: OOM when allocating tensor with shape[10]",), True),
        (Exit(signal=9, asked=Asked.STALL), (), True),
        (Exit(code=1), ("ValueError: no such row",), False),
        (Exit(signal=11), (), False),
    ],
)
def test_memory_that_grew_is_told_where_a_task_died_of_it(
    tmp_path: Path, exit_: Exit, tail: tuple[str, ...], told: bool
) -> None:
    """Not where something else was the cause."""
    run = RunDirectory(tmp_path / "runs" / "x")
    run.path.mkdir(parents=True)
    log = UsageLog(run.usage)
    for number in range(40):
        log.add(UsageSample(1000.0 + 2 * number, {task("worker:1"): (50.0, (400 + 50 * number) << 20)}, {}))
    cause = Failure(task("worker:1"), 1, exit_, 5.0, tail)
    text = report(RunResult(RunState.FAILED, 1, "its restart budget is used up", cause=cause), run, color=False)
    line = "    Its memory grew from 1050 MB to 2350 MB within 52 s before that: look for what each step keeps.\n"
    assert (line in text) == told

"""The final report as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.views.report import report
from clusterkit.words.outcome import Asked, AttemptRecord, Exit, Failure, RunResult, RunState
from tests.unit.histories import task

RUN = Path("/state/runs/r-1")
WORKER, OTHER, CHIEF = task("worker:1"), task("worker:0"), task("chief:0")
TAIL = tuple(f"line {number}" for number in range(40))
CAUSE = Failure(WORKER, 4, Exit(code=1), 9.0, (*TAIL, "ValueError: my bug"), "ValueError: my bug")
PEER = Failure(OTHER, 4, Exit(signal=6), 9.5, ("Socket closed",))


def attempt(name: str, number: int, exit_: Exit, step: int | None = None, resumed: int | None = None) -> AttemptRecord:
    """One attempt, which resumed from a checkpoint where it resumed."""
    path = None if resumed is None else f"/c/ckpt-{resumed}"
    return AttemptRecord(task(name), number, 0.0, 1.0, exit_, None, step, resumed, path)


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


def lines(result: RunResult, width: int = 100) -> list[str]:
    """The report without colors."""
    return [line.rstrip() for line in report(result, RUN, color=False, width=width).splitlines()]


def test_a_success_is_told_in_its_first_line() -> None:
    """Run, time, step and restarts; then a row for each task and where everything is."""
    text = lines(SUCCESS)
    assert text[0].startswith("✔ run r-1 succeeded after 3 min 20 s · step 400 · 1 restart ─")
    assert [line.split() for line in text[2:4]] == [
        ["chief:0", "2", "400", "100", "exited", "with", "code", "0"],
        ["worker:0", "1", "ended", "after", "the", "job's", "success", "(SIGTERM)"],
    ]
    assert text[-1] == "  Last checkpoint resumed from: /c/ckpt-100. Everything of this run is in /state/runs/r-1"
    assert "Cause" not in "\n".join(text)


def test_a_failure_names_the_cause_first_and_then_the_collateral() -> None:
    """The cause with the end of its log and where the rest is; one line for each that died of it."""
    text = lines(FAILURE)
    assert text[0].startswith("✘ run r-1 failed after 42 s · step 7 · 3 restarts ─")
    assert text[1] == "  Cause: worker:1 exited with code 1 (attempt 4)"
    assert text[2:22] == [f"    worker:1 │ {line}" for line in CAUSE.tail[-20:]]
    assert text[21] == "    worker:1 │ ValueError: my bug"
    assert text[22] == "    its log: /state/runs/r-1/tasks/worker:1/attempt-4.log"
    assert text[23] == "  Collateral: worker:0 was killed by SIGABRT (attempt 4)"
    assert "Socket closed" not in "\n".join(text)


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
    assert "worker:1 │ [red]tail[/red] [/] :boom:" in text
    assert text.count("could not be started: no file [/x/y] or [bold]z[/bold] :smile:") == 2


def test_a_task_that_was_never_started_has_no_log_to_look_at() -> None:
    """The path of a log that does not exist helps nobody."""
    cause = Failure(WORKER, 1, Exit(error="no such file"), 1.0)
    assert not [line for line in lines(replace(FAILURE, cause=cause)) if "its log" in line]


def test_a_long_line_of_the_log_is_not_broken() -> None:
    """It can be copied as one, and found again in the log."""
    cause = replace(CAUSE, tail=("x" * 300,))
    assert f"    worker:1 │ {'x' * 300}" in lines(replace(FAILURE, cause=cause), width=80)


def test_colors_only_where_they_are_wanted() -> None:
    """A report in a file has no escape sequences."""
    assert "\x1b[" in report(FAILURE, RUN, color=True, width=100)
    assert "\x1b" not in report(FAILURE, RUN, color=False, width=100)

"""The final report: faults that were never injected, and how to resume the run."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.views.recoveries import recovery_lines, unrecovered_lines
from clusterkit.words.outcome import NotInjected, RunResult, RunState
from clusterkit.words.recovery import RecoveryReport
from tests.views.test_report import KILLED, SUCCESS, injected, lines


def test_a_fault_that_was_never_injected_has_a_line() -> None:
    """Before the tasks; the first line is no check mark."""
    missed = (NotInjected("kill any @ 1h", "the run ended before 3600 s were over"), NotInjected("kill ps", "x"))
    text = lines(replace(SUCCESS, exit_code=3, reason="but", not_injected=missed))
    assert text[0].startswith("! run r-1 succeeded after")
    assert text[1:3] == [
        "  Never injected: kill any @ 1h: the run ended before 3600 s were over.",
        "  Never injected: kill ps: x.",
    ]


def test_a_fault_that_was_not_done_says_why() -> None:
    """And nothing else, since nothing came of it."""
    fault = replace(injected(1, "memory worker:1", 3.0), done=False, detail="no such limit here")
    rows = recovery_lines(RecoveryReport((), (fault,)))
    assert rows[1].split("  ")[-1] == "not done: no"
    assert [row.strip() for row in rows[2:]] == ["such limit", "here"]


def test_a_fault_whose_injection_is_missing_is_known_by_its_number() -> None:
    """The line of the journal that had it is damaged; what is left of the run is told."""
    report = RecoveryReport((KILLED,))
    (row,) = [line for line in recovery_lines(report, 200) if "worker:1" in line]
    assert "worker:1 was killed by SIGKILL, still of fault 1" in row
    assert unrecovered_lines(report, 0)[0] == "  The job did not recover from fault 1: nothing was restarted."


def test_a_run_that_was_stopped_says_how_to_resume_it() -> None:
    """If it reported a checkpoint; a job that is done has nothing to resume."""
    stopped = RunResult(RunState.STOPPED, 130, "clusterkit got SIGINT", checkpoint="/runs/r-1/checkpoints/ckpt-40")
    hint = "  Resume with: clusterkit up --resume r-1 …"
    assert hint in lines(stopped)
    assert hint not in lines(replace(stopped, checkpoint=None))
    assert hint not in lines(replace(stopped, state=RunState.SUCCEEDED, exit_code=0))

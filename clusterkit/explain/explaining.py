"""Adds explanations to the result of a run that failed or did not train as intended, for the report and result.json.

Reading the log and the program's files has a time limit. If no evidence is found in time, the result stays unchanged.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from clusterkit.store.directory import RunDirectory
from clusterkit.system.barrier import start_thread
from clusterkit.system.files import end_of
from clusterkit.text.lines import TRACEBACK
from clusterkit.words.account import Account
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind
from clusterkit.words.outcome import RunResult, RunState

LOG = 1 << 16  # bytes; the maximum to read from the end of a log
WITHIN = 2.0  # seconds; the time limit for reading the log and the program's files


def explained(result: RunResult, job: JobSpec, run: RunDirectory, account: Account) -> RunResult:
    """Return the result, with explanations if rows of the table match the run.

    A run without a problem is matched only against the rows about runs that succeed but do not train as intended.
    """
    if result.state not in (RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT):
        return result
    wrong = _went_wrong(result)
    is_quiet = job.program.kind is ProgramKind.COMMAND and result.last_step is None
    if not wrong and is_quiet and not _shows_exception(run, result, job):
        return result  # no row can match, so avoid the slow imports below
    try:  # the time limit does not include these imports
        from clusterkit.check.reading import findings_of, functions_of
        from clusterkit.explain.evidence import evidence_of
        from clusterkit.explain.matching import explain
        from clusterkit.explain.row import Evidence

        if wrong:
            from clusterkit.explain.table import TABLE as rows
        else:
            from clusterkit.explain.rows import silent, warned

            rows = (*silent.ROWS, *warned.ROWS)
    except Exception:  # clusterkit may have been reinstalled while the job ran
        return result
    gathered = list[Evidence]()

    def gather() -> None:
        gathered.append(evidence_of(run, result, job, account.startup))
        with suppress(Exception):  # these may fail, since the program's files may contain anything
            gathered.append(replace(gathered[-1], own=functions_of(job)))
            gathered.append(replace(gathered[-1], findings=tuple(findings_of(job, strict=not wrong))))

    with suppress(OSError):  # raised if the system cannot start another thread
        start_thread("explain", gather, lambda crashed: None).join(WITHIN)
    explanations = explain(gathered[-1], rows) if gathered else ()
    return replace(result, explanations=tuple(explanations), finding=str(explanations[0])) if explanations else result


def _shows_exception(run: RunDirectory, result: RunResult, job: JobSpec) -> bool:
    """Return whether the end of the leader's last log contains a Python traceback."""
    last = result.last_attempt(job.leader)
    with suppress(OSError):
        return last is not None and TRACEBACK.encode() in end_of(run.log(last.task, last.attempt), LOG)
    return False


def _went_wrong(result: RunResult) -> bool:
    """Return whether the run has a problem to explain. A failure due to an injected fault needs no explanation."""
    failed = result.state is not RunState.SUCCEEDED
    wrong = result.undistributed is not None or result.diverged_at is not None
    return failed or wrong or bool(result.unfinished or result.overcome)

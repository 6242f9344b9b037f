"""Collects evidence about a run that has ended, from the run's result, startup times and directory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from clusterkit.check.findings import Finding
from clusterkit.explain.errors import LONGEST_LINE, error_text
from clusterkit.explain.row import Evidence, StuckTask, TaskEvidence
from clusterkit.machine.blame import was_killed
from clusterkit.store.directory import RunDirectory
from clusterkit.system.files import end_of
from clusterkit.text.lines import is_own
from clusterkit.text.redraws import TerminalLines
from clusterkit.words.account import Startup
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, AttemptEnded, Exit, Failure, RunResult, RunState
from clusterkit.words.reports import Look

LOG = 1 << 18  # bytes; the maximum to read from the end of a log
REPORT = 1 << 20  # bytes; the maximum to read from the end of an inspection report

_SECTION = re.compile(r"^((?:chief|worker|ps|evaluator):\d{1,9}) (.{1,1000})$", re.MULTILINE)
_ENDPOINT = re.compile(r"^  endpoint +(\S{1,300})(, not listening)?$", re.MULTILINE)
_LISTENS = re.compile(r"^  listens +(.{1,2000})$", re.MULTILINE)
_THREAD = re.compile(r"^  thread at +(\S.{0,300})$", re.MULTILINE)
_STACK = re.compile(r"^    (/.{0,4096}):(\d{1,9}) in ", re.MULTILINE)


def evidence_of(
    run: RunDirectory, result: RunResult, job: JobSpec, startup: Startup | None, findings: tuple[Finding, ...] = ()
) -> Evidence:
    """Collect the evidence about a run that has ended with `result`."""
    connected = {start.task: _connected(start.connected, start.serving) for start in startup.tasks} if startup else {}
    failures = [*_overcome(result, job)] if result.cause is None else [result.cause, *result.same, *result.collateral]
    failed = {failure.task for failure in failures}
    rest = {ended.task: ended for ended in result.attempts if ended.task not in failed}
    # Read the first task's log. If that task ended without an error, also read the log of the second task, which shows
    # what it waited for.
    tasks = [
        *(_failed(run, failure, connected, number <= failures[0].exit.ok) for number, failure in enumerate(failures)),
        *(_ended(ended, connected) for ended in rest.values()),
    ]
    cause = result.cause
    return Evidence(
        tasks=tuple(tasks),
        job=job,
        state=result.state,
        reason=result.reason if cause is None else "",
        findings=findings,
        stuck=_stuck(run, result),
        undistributed=result.undistributed,
        diverged=result.diverged_at is not None,
        short=result.short,
        endpoints=tuple(run.endpoints().values()),
        log="" if failures and has_own_error(failures[0].exit) else _log_of_leader(run, result, job),
    )


def has_own_error(exit_: Exit) -> bool:
    """Return whether the end of the task's log shows the reason for this exit."""
    if exit_.ok or exit_.preempted or exit_.asked is not None or was_killed(exit_):
        return False
    return exit_.code is not None or exit_.signal is not None


def _overcome(result: RunResult, job: JobSpec) -> Iterator[Failure]:
    """Yield failures that did not end the run.

    If tasks had not finished when the leader succeeded, yield the leader's exit and the unfinished tasks. Otherwise, if
    the run succeeded, yield the last failure that caused a restart and that no injected fault explains.
    """
    if result.unfinished:
        done = result.last_attempt(job.leader)
        if done is not None and done.exit is not None:
            yield Failure(done.task, done.attempt, done.exit, done.ended or 0.0, step=done.last_step)
        yield from result.unfinished
        return
    for ended in result.overcome[-1:]:
        if ended.exit is not None and ended.ended is not None:
            yield Failure(ended.task, ended.attempt, ended.exit, ended.ended, step=ended.last_step)


def _log_of_leader(run: RunDirectory, result: RunResult, job: JobSpec) -> str:
    """Return the end of the log of the leader's last attempt."""
    last = result.last_attempt(job.leader)
    return "" if last is None else "\n".join(line[:LONGEST_LINE] for line in _log(run.log(last.task, last.attempt)))


def _stuck(run: RunDirectory, result: RunResult) -> tuple[StuckTask, ...]:
    """Return the tasks as the run's last inspection saw them; none unless the run ended because it hung."""
    if result.cause is not None:
        return _hung(run, Look.STALL) if result.cause.exit.asked is Asked.STALL else ()
    return _hung(run, Look.TIMEOUT if result.state is RunState.TIMED_OUT else Look.STARTUP)


def _connected(*stages: float | None) -> bool:
    return any(stage is not None for stage in stages)


def _failed(run: RunDirectory, failure: Failure, connected: dict[Task, bool], read: bool) -> TaskEvidence:
    """Return the evidence about a failed attempt, from its log if `read` is True, otherwise from `failure.tail`."""
    known = connected.get(failure.task) if failure.attempt == 1 else None
    if not has_own_error(failure.exit):
        return TaskEvidence(failure.task, exit=failure.exit, step=failure.step, connected=known)
    lines = (_log(run.log(failure.task, failure.attempt)) if read else []) or [*failure.tail]
    if failure.exception and failure.exception not in lines:
        lines.append(failure.exception)
    return TaskEvidence(failure.task, *error_text(lines), failure.exit, failure.step, known)


def _ended(ended: AttemptEnded, connected: dict[Task, bool]) -> TaskEvidence:
    known = connected.get(ended.task) if ended.attempt == 1 else None
    return TaskEvidence(ended.task, exit=ended.exit, step=ended.last_step, connected=known)


def _log(path: Path) -> list[str]:
    try:
        end = end_of(path, LOG)
    except OSError:
        return []
    terminal = TerminalLines()
    return terminal.feed(end, 0.0) + terminal.flush()


def _hung(run: RunDirectory, look: Look) -> tuple[StuckTask, ...]:
    """Return the tasks in the reports of inspections of the kind `look` on all hosts, each from its newest report."""
    found: dict[Task, StuckTask] = {}
    for path in sorted(run.all_stacks.glob(f"*{look.value}-*.txt"), key=lambda path: (len(path.name), path.name)):
        try:
            text = end_of(path, REPORT).decode(errors="replace")
        except OSError:
            continue
        found |= {stuck.task: stuck for stuck in stuck_tasks(text)}
    return tuple(found.values())


def stuck_tasks(report: str) -> Iterator[StuckTask]:
    """Yield the tasks in a report that `backends/local/hang_inspector.py` wrote."""
    heads = [*_SECTION.finditer(report)]
    ends = [*(head.start() for head in heads[1:]), len(report)]
    for head, end in zip(heads, ends, strict=False):
        section = report[head.end() : end]
        endpoint, listens = _ENDPOINT.search(section), _LISTENS.search(section)
        own = [found for found in _STACK.findall(section) if is_own(found[0])]
        yield StuckTask(
            task=Task.parse(head[1]),
            doing=head[2],
            where=f"{own[0][0].rpartition('/')[2]}:{own[0][1]}" if own else "",
            endpoint=endpoint[1] if endpoint else "",
            listening=endpoint is not None and not endpoint[2],
            listens=tuple(listens[1].split(", ")) if listens and listens[1] != "nowhere" else (),
            threads=tuple(_THREAD.findall(section)),
        )

"""`clusterkit explain`: says why a run failed, and what to do about it."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import click

from clusterkit.cli.addressing import RunId
from clusterkit.cli.help import Command, json_option
from clusterkit.cli.terminal import echo, echo_json, terminal_width
from clusterkit.ledger.takeover import account_of, result_of
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import NoSuchRun, RunStore, newest_first
from clusterkit.system.files import is_directory, is_file
from clusterkit.text.lines import last_exception
from clusterkit.text.printable import printable
from clusterkit.views.explanations import address, lines_of
from clusterkit.views.naming import failed
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words import wire
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.explanation import Explanation
from clusterkit.words.outcome import RunResult, RunState

STDIN = "-"
CHUNK = 1 << 20  # bytes per read
PATIENCE = 1.0  # seconds without input after which a message says that standard input is being read
MARGIN = "  │ "
FAILED = (RunState.FAILED, RunState.TIMED_OUT)
USUAL = 80  # columns, if standard output is not a terminal


class NotExplained(ClusterkitError):
    """Raised for a run or log that can't be explained: a live run, a run that never began, or an unreadable log."""

    exit_code = 2


@click.command(
    "explain",
    cls=Command,
    examples=[
        ("explain", "The last run."),
        ("explain job.log", "A log from anywhere, of one task or of many."),
        ("explain -", "A log from standard input."),
    ],
)
@click.argument("what", metavar="[RUN|FILE|-]", required=False, type=RunId())
@json_option
def command(what: str | None, as_json: bool) -> None:
    """Say why a run failed, and what to do about it. Without an argument, this is the last run that is over.

    Instead of a RUN, the log of a run can be given: a FILE, or - for standard input. The log may come from anywhere,
    for example from `kubectl logs`, and its lines may be labeled with the names of tasks.
    """
    if what is None and _is_redirected():
        what = STDIN
    if what is not None and not is_directory(what) and (what == STDIN or os.sep in what or is_file(what)):
        _explain_log(what, as_json)
    else:
        _explain_run(what, as_json)


def _is_redirected() -> bool:
    """Return whether standard input is a file or a pipe."""
    try:
        return _has_an_end(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):  # standard input is closed
        return False


def _has_an_end(descriptor: int) -> bool:
    """Return whether a descriptor is a regular file or a pipe, not a terminal or device."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def _explain_log(path: str, as_json: bool) -> None:
    from clusterkit.explain.log import explain_log

    try:
        if path == STDIN:
            first_match = explain_log(_chunks(sys.stdin.buffer))
        else:
            with Path(path).open("rb") as file:
                if not _has_an_end(file.fileno()):
                    raise NotExplained(f"Cannot read {path}: it is neither a file nor a pipe.")
                first_match = explain_log(_chunks(file))
    except OSError as error:
        raise NotExplained(f"Cannot read {path}: {error.strerror}.") from None
    first = first_match.evidence.first
    exception = last_exception(first.text.split("\n"))
    if exception is None and not first_match.explanations:
        headline = "This log contains no Python traceback, and no error that clusterkit knows."
    else:
        who = f"{first.name} failed first" if first.task or first.source else "It failed"
        headline = f"{who}: {exception}" if exception else f"{who}."
    task = None if first.task is None else str(first.task)
    _print_explanations({"run_id": None, "task": task, "error": exception}, headline, first_match.explanations, as_json)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    descriptor = file.fileno()
    if not select.select([descriptor], [], [], PATIENCE)[0]:
        echo("Reading a log from standard input …", err=True)
    while chunk := os.read(descriptor, CHUNK):
        yield chunk


def _explain_run(run_id: str | None, as_json: bool) -> None:
    run = _last_over() if run_id is None else RunStore().find(run_id)
    if run.is_live():
        raise NotExplained(f"The run {run.run_id} is live. See its state so far with: clusterkit show {run.run_id}")
    result = result_of(run)
    if result is None:
        raise NotExplained(f"The run {run.run_id} ended before it began: there is nothing to explain.")
    cause = result.cause
    how = result.reason if cause is None else failed(cause)
    facts = {
        "run_id": run.run_id,
        "task": None if cause is None else str(cause.task),
        "error": None if cause is None else cause.exception,
    }
    found, error = _explanations(run, result), list[str]()
    if result.fine and not found and not as_json:
        echo(f"The run {run.run_id} succeeded: there is nothing to explain.")
        failed_run = _last_failed() if run_id is None else None
        if failed_run is not None:
            echo(f"The last run that failed: clusterkit explain {failed_run.run_id} ({_origin(failed_run)})")
        return
    if cause is not None and not found and not as_json:
        lines = cause_lines(cause.tail, (terminal_width() or USUAL) - len(MARGIN))
        error = [*(f"{MARGIN}{line}" for line in lines), f"The log: {run.log(cause.task, cause.attempt)}"]
    _print_explanations(facts, f"The run {run.run_id} {result.ended}: {how}.", found, as_json, error)


def _explanations(run: RunDirectory, result: RunResult) -> tuple[Explanation, ...]:
    """Return the explanations in the run's result. If the result has none, look for them in the current table."""
    from clusterkit.explain.explaining import explained

    info = run.info()
    if result.explanations or info is None:
        return result.explanations
    setup = replace(info.job.setup, cwd=str(Path(info.cwd) / (info.job.setup.cwd or "")))
    return explained(result, replace(info.job, setup=setup), run, account_of(run)).explanations


def _last_over() -> RunDirectory:
    """Return the newest run that succeeded or failed by itself. Raises NoSuchRun."""
    run = _newest(*FAILED, RunState.SUCCEEDED)
    if run is None:
        raise NoSuchRun(f"No run in {RunStore().path} has succeeded or failed.")
    return run


def _last_failed() -> RunDirectory | None:
    return _newest(*FAILED)


def _newest(*states: RunState) -> RunDirectory | None:
    """Return the newest run that ended in one of these states; None if there is none."""
    for run in newest_first(RunStore().all()):
        result = None if run.is_live() else result_of(run)
        if result is not None and result.state in states:
            return run
    return None


def _origin(run: RunDirectory) -> str:
    """Return which program a run ran, and where."""
    info = run.info()
    return "unknown program" if info is None else printable(f"{info.job.program.target}, in {info.cwd or '.'}")


def _print_explanations(
    facts: dict[str, str | None], headline: str, found: Sequence[Explanation], as_json: bool, error: Sequence[str] = ()
) -> None:
    """Print the headline and the explanations; if there are none, print the lines of `error` instead.

    With `as_json`, print the explanations and `facts`.
    """
    if as_json:
        rows = [{**wire.encode(one), "reported": [*map(address, one.reported)]} for one in found]
        echo_json({**facts, "explanations": rows})
        return
    lines = lines_of(found, terminal_width() or USUAL) or [*error, "clusterkit has no explanation for it."]
    echo("\n".join([printable(headline), "", *lines]))

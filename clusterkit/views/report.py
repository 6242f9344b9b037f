"""The final report of a run: how it ended, the cause of a failure, each task, and each recovery."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from clusterkit.store.directory import RunDirectory
from clusterkit.store.paths import RunPaths
from clusterkit.store.store import is_in_user_store
from clusterkit.store.usage import recent_growth
from clusterkit.text.durations import shown
from clusterkit.text.printable import NO_STYLE, printable
from clusterkit.views.explanations import explanation_lines
from clusterkit.views.goodput import goodput_lines, straggler_lines
from clusterkit.views.naming import all_failed, because, failed, measured
from clusterkit.views.recoveries import (
    nothing_recovered,
    recovery_lines,
    repeated_steps_lines,
    same_each_time,
    unrecovered_lines,
)
from clusterkit.views.step_use import StepUse, step_lines
from clusterkit.views.tables import Column, table_lines
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words.account import Account, RecoveryReport
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import REFUSED, SIGKILL, Asked, AttemptEnded, Failure, RunResult, RunState, diverged

_TASKS = (
    Column("task"), Column("attempts", 2, right=True), Column("steps", 3, right=True),
    Column("resumed at", 1, right=True), Column("how the last attempt ended", least=12),
)  # fmt: skip
_INDENT, _MARGIN = "  ", "    │ "
_LAST = 3  # the number of log lines shown for a task that was killed
_BOLD, _DIM, _RED, _GREEN = 1, 2, 31, 32
_Style = tuple[int, ...]  # the parameters of a terminal's escape sequence for a color or weight
_Line = list[tuple[str, _Style]]


def report(
    result: RunResult,
    run: RunPaths,
    color: bool,
    width: int | None = None,
    recovered: RecoveryReport | None = None,
    use: StepUse | None = None,
) -> str:
    """Return the final report. `width` is in columns.

    `run` has the paths of the run, `recovered` has the recoveries, and `use` has the number of cores that were used.
    """
    columns = width or shutil.get_terminal_size((100, 0)).columns
    lines = [_headline(result, run.run_id, columns)]
    if result.cause is not None:
        lines += _blame(result, result.cause, run, columns, recovered)
    elif result.state is not RunState.SUCCEEDED:
        lines.append([(f"  Reason: {result.reason}.", ())])
    lines += [[(f"  Unfinished: {line}", (_BOLD,))] for line in all_failed(result.unfinished)]
    if result.cause is None:
        lines += [[(line, (_BOLD,))] for line in explanation_lines(result, columns)]
    lines += [*_reservations(result, columns)]
    lines += _tasks(result.attempts, columns)
    if result.metrics:
        lines.append([(f"  metrics: {measured(result.metrics)}", ())])
    if recovered is not None:
        lines += _recoveries(result, recovered, columns)
    if isinstance(recovered, Account):
        lines += [[(line, ())] for line in _time(result, recovered, use, columns)]
    kept = not isinstance(run, RunDirectory) or run.path.is_dir()
    if not kept:
        gone = f"  The directory of this run was removed, with its logs and checkpoints: {run.path}"
        lines.append([(gone, (_BOLD,))])
    elif not result.final:
        lines.append([(f"  Continue with: clusterkit up --run-id {run.run_id} --continue …", ())])
    elif result.state is not RunState.SUCCEEDED and result.checkpoint is not None:
        lines.append([(f"  Resume with: clusterkit up --resume {run.run_id} …", ())])
    if kept:
        lines.append([(f"  {_last_line(result)}Everything of this run is in {run.path}{_except(run)}", ())])
    return "".join("".join(_styled(text, style, color) for text, style in line) + "\n" for line in lines)


def _except(run: RunPaths) -> str:
    """Return, as the end of a sentence, which of the run's files were removed."""
    if not isinstance(run, RunDirectory):
        return ""
    parts = (run.all_tasks, run.journal, run.result_file)
    removed = [path.name for path in parts if not path.exists()]
    return f", except what was removed: {', '.join(removed)}" if removed else ""


def _reservations(result: RunResult, columns: int) -> Iterator[_Line]:
    """Yield lines about facts that cast doubt on a result or limit what the result proves."""
    if result.verification is not None:
        first, *others = result.verification.lines
        yield [("  ", ()), (first, (_BOLD,) if result.verification.differs else ())]
        for line in others:
            for part in textwrap.wrap(line.strip(), max(columns - 8, 20), break_on_hyphens=False):
                yield [(f"      {part}", ())]
    for one in result.not_injected:
        yield [("  ", ()), (f"Never injected: {one.fault}", (_BOLD,)), (f": {one.why}.", ())]
    if result.diverged_at is not None:
        yield [("  ", ()), (f"! {diverged(result.diverged_at)}", (_BOLD,))]
    yield from _undistributed(result)
    if gone := result.given_up:
        without = f". The job continued without {'it' if len(gone) == 1 else 'them'}."
        yield [("  ", ()), (f"Given up: {', '.join(map(str, gone))}", (_BOLD,)), (without, ())]


def _undistributed(result: RunResult) -> list[_Line]:
    """Return lines about tasks that trained alone, with code to fix that; no lines if an explanation says more."""
    found = result.undistributed
    if found is None or (result.exact and result.state is not RunState.SUCCEEDED):
        return []
    if result.exact:
        return [[("  ", ()), (f"{found.clause}.", (_BOLD,))]]
    mend: list[_Line] = [[(f"      {line}", ())] for line in found.mend]
    return [[("  ", ()), (str(found), (_BOLD,)), (" The program needs:", ())], *mend]


def _time(result: RunResult, recovered: Account, use: StepUse | None, width: int) -> list[str]:
    """Return lines about how time was spent: goodput, how much of the machine was used, and stragglers."""
    told = [] if recovered.goodput is None else goodput_lines(recovered.goodput, width)
    shares = told[:1] if result.state is RunState.FAILED else told
    return [*shares, *step_lines(use, width), *straggler_lines(recovered.stragglers)]


def _styled(text: str, style: _Style, color: bool) -> str:
    text = printable(text, color)
    if style and color:
        return f"\x1b[{';'.join(map(str, style))}m{text}{NO_STYLE}"
    return text + NO_STYLE * ("\x1b" in text)  # resets a color that the text from a task's log has left on


def _headline(result: RunResult, run_id: str, width: int) -> _Line:
    good = result.state is RunState.SUCCEEDED
    steps = f" · step {result.last_step}" if result.last_step is not None else ""
    restarts = f" · {number_of('restart', result.restarts)}" if result.restarts else ""
    text = f"{result.mark} run {run_id} {result.ended} after {shown(result.duration)}{steps}{restarts}"
    rule = "─" * (width - len(text) - 1)
    return [(text, (_BOLD, _GREEN if good else _RED)), (" ", ()), (rule, (_GREEN if result.fine else _RED,))]


def _blame(
    result: RunResult, cause: Failure, run: RunPaths, width: int, recovered: RecoveryReport | None
) -> Iterator[_Line]:
    faults = [] if recovered is None else recovered.faults
    text = next((f": {one.fault}" for one in faults if one.number == cause.fault), "") if because(cause) else ""
    yield [("  ", ()), (f"Cause: {failed(cause)}{text}", (_BOLD,))]
    for line in explanation_lines(result, width):
        yield [(line, (_BOLD,))]
    # The last lines of a task that was ended or killed show what the task was doing, not the cause.
    silent = cause.exit.asked is not None or cause.exit.signal == SIGKILL
    for line in cause_lines(cause.tail, width - len(_MARGIN))[-_LAST if silent else 0 :]:
        yield [(f"{_MARGIN}{line}", ())]
    if cause.exit.ok:
        yield [(f"    {result.reason}.", ())]
    if cause.exit.error is None:
        path = f"    its log: {run.log(cause.task, cause.attempt)}"
        by_command = f"    its log: clusterkit logs --run {run.run_id} {cause.task}"
        yield [(path if len(path) <= width or not is_in_user_store(run) else by_command, ())]
    growth = recent_growth(Path(run.usage), cause.task) if _may_lack_memory(cause) else None
    if growth is not None:
        yield [(f"    Its memory {growth} before that: look for what each step keeps.", (_BOLD,))]
    if result.repeated:
        where = "before it reports a step" if cause.step is None else f"at step {cause.step}"
        yield [(f"    It fails the same way each time, {where}, as attempt {cause.attempt - 1} did.", ())]
    if result.usage_error:
        of_text = cause.step is None and cause.exit.code != REFUSED
        again = "read the same" if of_text else "fail in the same way"
        anyway = "" if cause.exit.code == REFUSED else " To try anyway: --restart-budget 1"
        yield [(f"    A restart would {again}.{anyway}", ())]
    for what, others in (("Same error", result.same), ("Collateral", result.collateral)):
        for line in all_failed(others):
            yield [(f"  {what}: {line}", ())]


_NO_MEMORY = re.compile(
    r"\bMemoryError\b|ResourceExhausted|RESOURCE_EXHAUSTED|\bOOM\b|bad_alloc|[Cc]annot allocate memory|[Oo]ut of memory"
)


def _may_lack_memory(failure: Failure) -> bool:
    """Return whether the task may have failed or stalled for lack of memory, so that its growth is worth telling."""
    exit_ = failure.exit
    if exit_.out_of_memory or exit_.asked is Asked.STALL:
        return True
    if exit_.signal == SIGKILL and exit_.asked is None and failure.fault is None:
        return True  # by the kernel or a container's limit, perhaps
    return any(_NO_MEMORY.search(line) for line in (failure.exception or "", *failure.tail))


def _tasks(attempts: Sequence[AttemptEnded], width: int) -> list[_Line]:
    of_task: defaultdict[Task, list[AttemptEnded]] = defaultdict(list)
    for attempt in attempts:
        of_task[attempt.task].append(attempt)
    rows = [_row(task, of_task[task]) for task in sorted(of_task)]
    return _titled([_INDENT + line for line in table_lines(_TASKS, rows, width - len(_INDENT), gap=2)])


def _recoveries(result: RunResult, recovered: RecoveryReport, width: int) -> list[_Line]:
    """Return the table of recoveries, or a sentence if the run failed without a recovery."""
    if result.repeated or result.usage_error:
        return []  # the report already says that a restart fails in the same way
    if result.state is RunState.SUCCEEDED:
        rows = _titled(recovery_lines(recovered, width))
        rows += [[(line, ())] for line in repeated_steps_lines(recovered, width, result.loop)]
        return rows
    if result.state is RunState.FAILED and (death := same_each_time(recovered)):
        each = f"in each of {number_of('attempt', len(recovered.recoveries))}"
        return [[(f"  The job did not recover: {death} {each}.", ())]]
    if not nothing_recovered(recovered):
        return _titled(recovery_lines(recovered, width))
    said, *table = unrecovered_lines(recovered, result.restarts, width, has_steps=result.last_step is not None)
    return [[(said, ())], *_titled(table)]


def _titled(rows: Sequence[str]) -> list[_Line]:
    """Return the rows of a table as lines. The first row has the titles, which are dimmed."""
    return [[(row, () if number else (_DIM,))] for number, row in enumerate(rows)]


def _row(task: Task, attempts: Sequence[AttemptEnded]) -> tuple[str, str, str, str, str]:
    last = attempts[-1]
    steps = [a.last_step for a in attempts if a.last_step is not None]
    resumed = last.resumed_step if last.resumed_step else None
    return (
        str(task),
        str(last.attempt),
        "" if not steps else str(steps[-1]),
        "" if resumed is None else str(resumed),
        "was still running when the run ended" if last.exit is None else printable(str(last.exit)),
    )


def _last_line(result: RunResult) -> str:
    used = [a for a in result.attempts if a.resumed_from]
    return f"Last checkpoint resumed from: {used[-1].resumed_from}. " if used else ""

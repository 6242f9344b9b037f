"""The end of a run, readable at a glance: what came of it, the cause first, then a line for each task."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clusterkit.rules.durations import shown
from clusterkit.rules.noise import NoiseFilter
from clusterkit.views.narrate import failed
from clusterkit.words.model import Task
from clusterkit.words.outcome import AttemptRecord, Failure, RunResult, RunState

CAUSE_LINES = 20


def report(result: RunResult, run: Path, color: bool, width: int | None = None) -> str:
    """The final report. `run` is the run's directory, `width` in columns."""
    out = io.StringIO()
    columns = width or max(80, shutil.get_terminal_size((100, 0)).columns)
    console = Console(
        file=out, force_terminal=color, no_color=not color, width=columns, highlight=False, markup=False, emoji=False
    )
    console.rule(_headline(result, run.name), style="green" if result.exit_code == 0 else "red", align="left")
    if result.cause is not None:
        _blame(console, result.cause, result.collateral, run)
    elif result.exit_code != 0:
        console.print(Padding(Text(f"Reason: {result.reason}."), (0, 0, 0, 2)))
    console.print(Padding(_tasks(result.attempts), (0, 0, 0, 1)))
    console.print(Text(f"  {_last_line(result)}Everything of this run is in {run}"), soft_wrap=True)
    return out.getvalue()


def _headline(result: RunResult, run_id: str) -> Text:
    mark = "✔" if result.exit_code == 0 else "✘"
    steps = f" · step {result.last_step}" if result.last_step is not None else ""
    restarts = f" · {result.restarts} restart{'s' * (result.restarts != 1)}" if result.restarts else ""
    text = f"{mark} run {run_id} {result.state} after {shown(result.duration)}{steps}{restarts}"
    return Text(text, style="bold green" if result.state is RunState.SUCCEEDED else "bold red")


def _blame(console: Console, cause: Failure, collateral: Sequence[Failure], run: Path) -> None:
    console.print(Padding(Text(f"Cause: {failed(cause)}", style="bold"), (0, 0, 0, 2)))
    noise = NoiseFilter()
    for line in [line for line in cause.tail if not noise.is_noise(line)][-CAUSE_LINES:]:
        console.print(Text(f"    {cause.task} │ {line}"), soft_wrap=True)
    if cause.exit.error is None:
        log = run / "tasks" / str(cause.task) / f"attempt-{cause.attempt}.log"
        console.print(Text(f"    its log: {log}"), soft_wrap=True)
    for failure in collateral:
        console.print(Text(f"  Collateral: {failed(failure)}"))


def _tasks(attempts: Sequence[AttemptRecord]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for title in ("task", "attempts", "steps", "resumed at", "how the last attempt ended"):
        table.add_column(title, justify="right" if title in ("attempts", "steps", "resumed at") else "left")
    for task in sorted({attempt.task for attempt in attempts}):
        table.add_row(*_row(task, [attempt for attempt in attempts if attempt.task == task]))
    return table


def _row(task: Task, attempts: Sequence[AttemptRecord]) -> tuple[str, str, str, str, str]:
    last = attempts[-1]
    steps = [a.last_step for a in attempts if a.last_step is not None]
    resumed = last.resumed_step if last.resumed_step else None
    return (
        str(task),
        str(last.attempt),
        "" if not steps else str(steps[-1]),
        "" if resumed is None else str(resumed),
        str(last.exit),
    )


def _last_line(result: RunResult) -> str:
    used = [a for a in result.attempts if a.resumed_from]
    return f"Last checkpoint resumed from: {used[-1].resumed_from}. " if used else ""

"""The recovery report as a table: each failure, how long the recovery took, and what the recovery cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import PurePath
from textwrap import wrap

from clusterkit.text.durations import precise
from clusterkit.text.printable import at_words, columns, fitted, printable
from clusterkit.views.surroundings import files as names_of
from clusterkit.views.tables import Column, table_lines
from clusterkit.words.account import Death, InjectedFault, Recovery, RecoveryReport
from clusterkit.words.model import Task, number_of

TITLES = ("recoveries", "what", "detected", "restarted", "up", "new step", "lost", "from")
DROPPED = ("detected", "up", "restarted", "from", "lost", "new step")  # columns that narrow terminals drop, in order
_RIGHT = frozenset({"recoveries", "detected", "up", "new step", "lost"})
USUAL = 100  # columns; the terminal width for which `_WIDEST` is intended
_WIDEST = {"what": 24, "restarted": 9, "from": 14}  # the maximum widths of cells; longer texts are wrapped
_NARROWEST = 14  # the minimum width of the column `what`
_INDENT = "  "
_NONE = "—"
_KEEPS = "add clusterkit.training.Backup() to fit's callbacks, or use training.Checkpointer"
_LOOP_KEEPS = "save checkpoints with clusterkit.training.Checkpointer"
_TIED = "\N{NO-BREAK SPACE}"  # keeps a number and its unit on one line; printed as a space


def recovery_lines(report: RecoveryReport, width: int | None = None) -> list[str]:
    """Return the table with its titles, at most `width` columns wide; empty if nothing went wrong."""
    return _fitting(_cells(report, True), width or USUAL)


def unrecovered_lines(
    report: RecoveryReport, restarts: int, width: int | None = None, has_steps: bool = True
) -> list[str]:
    """Return a sentence about a run that ended without a recovery, and the table of the faults that killed no task.

    If the run never reported a step (not `has_steps`), its program may have recovered all the same.
    """
    texts = _texts(report)
    numbers = dict.fromkeys(number for recovery in report.recoveries for number in recovery.faults)
    of = f" from {', '.join(texts[number] for number in numbers)}" if numbers else ""
    why = f"no new step after {number_of('restart', restarts)}" if restarts else "nothing was restarted"
    said = f"The job did not recover{of}: {why}" if of or restarts else "Nothing was restarted"
    if restarts and not has_steps:
        number = number_of("restart", restarts)
        said = f"Whether the job recovered{of} is not known: no task reported a step, before or after {number}"
    return [f"  {said}.", *_fitting(_cells(report, False), width or USUAL)]


def nothing_recovered(report: RecoveryReport) -> bool:
    """Return whether there were failures and the run recovered from none of them. A requested restart is no failure."""
    has_failures = any(one.cause is not None for one in report.recoveries)
    return has_failures and not any(one.ended is not None or one.went_on for one in report.recoveries)


def recovery_cells(report: RecoveryReport) -> list[tuple[str, ...]]:
    """Return rows for recoveries and for faults that killed no task, in order of time, with the columns of TITLES."""
    return [tuple(cell.replace(_TIED, " ") for cell in row) for row in _cells(report, True)]


def _cells(report: RecoveryReport, with_recoveries: bool) -> list[tuple[str, ...]]:
    (begun, alone), texts = report.beginnings(), _texts(report)
    rows = [(one.at, _recovery(one, faults, texts)) for one, faults in begun if with_recoveries]
    rows += [(fault.injected, _fault(fault)) for fault in alone]
    return [row for _, row in sorted(rows, key=lambda row: row[0])]


def same_each_time(report: RecoveryReport) -> str | None:
    """If several recoveries all began with the same death, return that death.

    Return None if the deaths differ, or if a fault caused any of the recoveries.
    """
    deaths = {_death(one.cause) if one.cause and not one.faults else None for one in report.recoveries}
    return deaths.pop() if len(deaths) == 1 and len(report.recoveries) > 1 else None


def repeated_steps(report: RecoveryReport) -> int:
    """Return how many steps were trained again because the training began at its first step again."""
    return sum(one.lost for one in report.recoveries if one.lost and one.lost >= (one.last_step or 0))


def remedy(loop: bool) -> str:
    """Return a clause that says how to lose fewer steps. `loop` is True if the program has its own training loop."""
    return _LOOP_KEEPS if loop else _KEEPS


def repeated_steps_lines(report: RecoveryReport, width: int = USUAL, loop: bool = False) -> list[str]:
    """Return a sentence about the repeated steps and how to avoid repetition; empty if no step was repeated."""
    if not (count := repeated_steps(report)):
        return []
    lost = f"{number_of('step', count)} {'was' if count == 1 else 'were'} trained again, since training began at step 0"
    return at_words(f"  {lost}: {remedy(loop)}.", width, "    ").split("\n")


def _texts(report: RecoveryReport) -> dict[int, str]:
    """Return the texts of faults by number. The text is `fault NUMBER` if a damaged journal does not have the fault."""
    numbers = (number for recovery in report.recoveries for number in recovery.faults)
    return {number: f"fault {number}" for number in numbers} | {one.number: one.fault for one in report.faults}


def _recovery(recovery: Recovery, begun_by: Sequence[InjectedFault], texts: dict[int, str]) -> tuple[str, ...]:
    first = _since(recovery.at, recovery.first_step)
    return (
        f"at {precise(recovery.at)}",
        _what(recovery, begun_by, texts),
        _since(recovery.at, recovery.detected),
        " ".join(_ranges([one.task for one in recovery.returns])) or "nothing",
        _since(recovery.at, recovery.up),
        "went on" if recovery.went_on else first,
        _NONE if recovery.lost is None else str(recovery.lost),
        ", ".join([*_origin(recovery), *_left(recovery), *(text for fault in begun_by for text in _heal(fault))]),
    )


def _what(recovery: Recovery, begun_by: Sequence[InjectedFault], texts: dict[int, str]) -> str:
    """Return what triggered a recovery: the faults or, if there were none, the first death or the reason to restart."""
    if begun_by:
        return ", ".join(fault.fault for fault in begun_by)
    said = [] if recovery.cause is None else [_death(recovery.cause)]
    if recovery.cause is not None and recovery.cause.fault is not None:
        said.append(f"still of {texts[recovery.cause.fault]}")
    if recovery.allocation is not None:
        said.append(f"continued in allocation {recovery.allocation}")
    if recovery.files:
        said.append(f"{names_of(recovery.files)} changed")
    elif recovery.host is not None:
        said.append(f"the host {recovery.host} left")
    elif recovery.asked:
        said.append("restarted as asked")
    return ", ".join(said)


def _death(death: Death) -> str:
    return f"{death.task} {death.exit}"


def _fault(fault: InjectedFault) -> tuple[str, ...]:
    """Return the row of a fault that killed no task."""
    if not fault.done:
        return (f"at {precise(fault.injected)}", fault.fault, *[_NONE] * 5, f"not done: {fault.detail}")
    return (
        f"at {precise(fault.injected)}",
        fault.fault,
        _since(fault.injected, fault.detected),
        "nothing",
        "",
        "went on" if fault.went_on else _since(fault.injected, fault.first_step),
        "0",
        ", ".join(_heal(fault)),
    )


def _ranges(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the names of tasks. Three or more consecutive tasks of a type are written as `worker:0-7`."""
    for kind in dict.fromkeys(task.type for task in tasks):
        indices = [task.index for task in tasks if task.type is kind]
        if len(indices) > 2 and indices == list(range(indices[0], indices[-1] + 1)):
            yield f"{kind}:{indices[0]}-{indices[-1]}"
        else:
            yield from (f"{kind}:{index}" for index in indices)


def _origin(recovery: Recovery) -> Iterator[str]:
    if recovery.checkpoint is not None:
        yield PurePath(recovery.checkpoint).name
    elif recovery.resumed_step is not None:
        yield f"step {recovery.resumed_step}"


def _left(recovery: Recovery) -> Iterator[str]:
    if recovery.left is not None:
        yield f"{number_of('worker', recovery.left)} left".replace(" ", _TIED)


def _heal(fault: InjectedFault) -> Iterator[str]:
    if fault.healed is not None:
        yield f"healed {_since(fault.injected, fault.healed)}".replace(" ", _TIED)


def _since(begin: float, end: float | None) -> str:
    """Return the time from `begin` to `end`, at least 0, since a stall may be detected before the recovery begins."""
    return _NONE if end is None else f"+{precise(max(0.0, end - begin))}"


def _fitting(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the widest table that fits: one line per row in a wide terminal, fewer columns in a narrow terminal."""
    if not rows:
        return []
    if width > USUAL and max(map(columns, lines := _table(TITLES, rows, {}))) <= width:
        return lines
    longest = max(columns(printable(row[TITLES.index("what")])) for row in rows)
    widths = range(longest if width > USUAL else _WIDEST["what"], _NARROWEST - 1, -1)
    for gone in range(len(DROPPED) + 1):
        titles = [title for title in TITLES if title not in DROPPED[:gone]]
        kept = [[cell for cell, title in zip(row, TITLES, strict=True) if title in titles] for row in rows]
        for what in widths:
            lines = _table(titles, kept, {**_WIDEST, "what": what})
            if max(map(columns, lines)) <= width:
                return lines
    return [fitted(line, width) for line in lines]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], widest: Mapping[str, int]) -> list[str]:
    wrapped = [[_wrapped(cell, widest.get(title)) for cell, title in zip(row, titles, strict=True)] for row in rows]
    lines = [line for row in wrapped for line in zip_longest(*row, fillvalue="")]
    kinds = [Column(title, right=title in _RIGHT) for title in titles]
    return [_INDENT + line for line in table_lines(kinds, lines, gap=2)]


def _wrapped(cell: str, width: int | None) -> list[str]:
    if width is None:
        return [printable(cell)]
    lines = wrap(printable(cell), width, break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace(_TIED, " ") for line in lines]

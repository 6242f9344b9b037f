"""Formats a run or a campaign as Markdown for an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from clusterkit.page.model.entities import Goodput, Run
from clusterkit.text.dates import utc
from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.views.explanations import address
from clusterkit.views.naming import failed
from clusterkit.views.recoveries import TITLES, recovery_cells
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words.account import InjectedFault, RecoveryReport
from clusterkit.words.campaign import CampaignRecord, RunRecord
from clusterkit.words.examined import ExaminedCell
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import number_of
from clusterkit.words.outcome import Failure, RunResult, RunState

LONGEST_LINE = 400  # the maximum length of a line, in characters
_TICKS = re.compile("`+")
MOST_ROWS = 60  # the maximum number of rows of a table; a GitHub issue is limited to 65,536 characters
MOST_FAILING = 8  # the maximum number of failed runs of a campaign that are described in full
LONGEST_COMMAND = 2000  # the maximum length of a command, in characters
LONGEST_CELL = 160  # the maximum length of a table cell, in characters


def code(text: str, longest: int = LONGEST_LINE) -> str:
    """Return a code span. The delimiter has more backticks than any sequence of backticks in the text."""
    line = _cut(" ".join(text.split("\n")), longest)
    if not line.strip():
        return ""
    fence = "`" * (_longest_run(line) + 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"


def block(lines: Iterable[str], language: str = "text") -> str:
    """Return a code block. The fence is longer than any sequence of backticks in the lines."""
    body = [_cut(line) for text in lines for line in text.split("\n")]
    fence = "`" * max(3, max(map(_longest_run, body), default=0) + 1)
    return "\n".join([f"{fence}{language}", *body, fence])


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of at most MOST_ROWS rows, and a line about rows that are left out. The cells are Markdown."""
    lines = [titles, ["---"] * len(titles), *rows[:MOST_ROWS]]
    text = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    left = len(rows) - MOST_ROWS
    return text + (f"\n\n{left} more rows are left out." if left > 0 else "")


def _cut(line: str, longest: int = LONGEST_LINE) -> str:
    line = printable(line)
    return line if len(line) <= longest else f"{line[:longest]}…"


def _longest_run(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)


_NAMES = {name: name for name in ("tf_keras", "system", "machine")}
_NAMES |= {"python": "Python", "tensorflow": "TensorFlow", "keras": "Keras"}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts in a run's report. `now` is in seconds since the run began."""

    run: Run
    now: float
    clusterkit: str
    platform: Mapping[str, str]
    seed: int | None
    result: RunResult | None
    recovered: RecoveryReport
    goodput: Goodput | None
    examined: tuple[ExaminedCell, ...] = ()  # the cells of an exam that were judged by the run


def run_markdown(told: RunFacts) -> str:
    parts = [f"<!-- clusterkit report: run {_safe(told.run.id)} -->", f"## {_headline(told)}", _facts(told)]
    if told.result is not None and told.result.cause is not None:
        parts += _cause(told.result, told.result.cause)
    elif told.result is not None and (told.result.state is not RunState.SUCCEEDED or told.result.unfinished):
        parts += ["### Reason", block([told.result.reason]), *_explained(told.result.explanations)]
    elif told.result is not None and told.result.doubts:
        parts += ["### Doubts", *_explained(told.result.doubts)]
    if rows := recovery_cells(told.recovered):
        parts += ["### Recoveries", table(TITLES, [[code(cell, LONGEST_CELL) for cell in row] for row in rows])]
    if told.recovered.faults or (told.result is not None and told.result.not_injected):
        parts += ["### Faults", table(("", "at", "fault", "result"), list(_faults(told)))]
    if told.examined:
        parts += ["### Exam", *_examined(told.examined)]
    elif again := _again(told):
        parts += ["### To run it again", block([again], "sh")]
    return "\n\n".join(parts) + "\n"


def campaign_markdown(record: CampaignRecord) -> str:
    mark = "✘" if record.failing or record.problem else "✔" if record.state == "passed" else "–"
    count = f"{len(record.runs) - len(record.failing)} of {number_of('run', len(record.runs))} passed"
    parts = [
        f"<!-- clusterkit report: campaign {_safe(record.campaign)} -->",
        f"## {mark} Campaign: {count}",
        table(("", ""), list(_campaign_facts(record))),
    ]
    if record.actions:
        rows = [(code(row.action), str(row.injected), str(row.recovered)) for row in record.actions]
        parts.append(table(("action", "injected", "recovered"), rows))
    if record.recovery_times:
        times = [
            (code(row.action), code(row.type or ""), str(row.restarts), *map(_seconds, (row.p50, row.p90, row.p100)))
            for row in record.recovery_times
        ]
        parts.append(table(("recovery from", "of", "restarts", "50 %", "90 %", "longest"), times))
    for run in record.failing[:MOST_FAILING]:
        parts += _failing(run)
    if len(record.failing) > MOST_FAILING:
        parts.append(f"{number_of('more run', len(record.failing) - MOST_FAILING)} failed.")
    for run in record.interrupted[:MOST_FAILING]:
        parts += [f"### – Run {run.run}, interrupted", *_replayed(run)]
    runs = [_row(run, "✘ failed" if run.violations else "✔ passed") for run in record.runs]
    runs += [_row(run, "– interrupted") for run in record.interrupted]
    if runs:
        parts += ["### Runs", table(("run", "faults", "outcome", "seconds", "recoveries", "steps lost"), runs)]
    if record.command:
        parts += ["### To run it again", block([record.command[:LONGEST_COMMAND]], "sh")]
    return "\n\n".join(parts) + "\n"


def _headline(told: RunFacts) -> str:
    run = told.run
    state = run.state or run.phase
    without_result = "✘" if run.state else "–"  # a run that is over without a result was lost
    mark = without_result if told.result is None else told.result.mark
    steps = "" if run.step is None else f", step {run.step}"
    restarts = f", {number_of('restart', run.restarts)}" if run.restarts else ""
    name = PurePath(run.program).name or run.id
    return f"{mark} {code(name)} {_safe(state)} after {shown(max(0.0, told.now))}{steps}{restarts}"


def _facts(told: RunFacts) -> str:
    run = told.run
    rows = [("run", code(run.id)), ("program", code(run.program)), ("job", code(run.shape))]
    rows.append(("strategy", code(run.strategy)))
    rows += [("network", code(run.network)), ("engine", code(run.engine))]
    rows += _versions(told.clusterkit, told.platform)
    rows.append(("began", utc(run.wall)))
    if told.result is not None and told.result.verification is not None:
        rows.append(("verification", code(told.result.verification.headline)))
    if told.goodput is not None and told.goodput.goodput is not None:
        parts = ", ".join(f"{part.name} {shown(part.seconds)}" for part in told.goodput.parts if part.seconds >= 0.05)
        rows.append(("goodput", f"{told.goodput.goodput:.0%}: {code(parts)}"))
        rows.append(("", code(told.goodput.most)))
    return table(("", ""), [row for row in rows if row[1]])


def _versions(clusterkit: str, platform: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "clusterkit", code(clusterkit)
    yield from ((_NAMES.get(name, code(name)), code(value)) for name, value in list(platform.items())[:20])


def _cause(result: RunResult, cause: Failure) -> Iterator[str]:
    yield "### Cause"
    yield code(failed(cause))
    yield from _explained(result.explanations)
    if lines := cause_lines(cause.tail, LONGEST_LINE):
        yield block(lines)
    others = [("Same error", one) for one in result.same] + [("Collateral", one) for one in result.collateral]
    if others:
        yield "\n".join(f"- {what}: {code(failed(one))}" for what, one in others[:MOST_ROWS])


def _explained(explanations: Sequence[Explanation]) -> Iterator[str]:
    """Yield the explanations as code spans, since explanations quote logs, which may contain hostile text."""
    for one in explanations:
        lines = [f"Why: {code(one.means)}", f"Fix: {code(one.advice)}", *(code(address(at)) for at in one.reported)]
        yield "\\\n".join(lines)


def _faults(told: RunFacts) -> Iterator[tuple[str, ...]]:
    for fault in told.recovered.faults:
        yield str(fault.number), _seconds(fault.injected), code(fault.fault, LONGEST_CELL), code(_came(fault))
    for never in told.result.not_injected if told.result is not None else ():
        yield "", "never", code(never.fault, LONGEST_CELL), code(never.why)


def _came(fault: InjectedFault) -> str:
    if not fault.done:
        return f"not injected: {fault.detail}"
    if fault.died:
        names = ", ".join(map(str, fault.died[:8]))
        return f"{names}{' and others' if len(fault.died) > 8 else ''} died of it"
    healed = (
        "" if fault.healed is None else f"healed after {shown(max(0.0, fault.healed - fault.injected))}: {fault.why}"
    )
    return healed or ("training continued" if fault.went_on else fault.detail)


def _examined(cells: Sequence[ExaminedCell]) -> Iterator[str]:
    """Yield what an exam says of the run, and the commands that examine the failed cells again."""
    yield table(("exam", "cell", "result"), [(code(cell.exam), code(cell.cell), code(_said(cell))) for cell in cells])
    failed = [cell.command for cell in cells if cell.has_failed]
    if failed:
        yield block(failed, "sh")


def _said(cell: ExaminedCell) -> str:
    return f"{cell.grade}: {' '.join(cell.texts)}" if cell.texts else cell.grade


def _again(told: RunFacts) -> str:
    """Return the command that repeats the run with the same seed."""
    words = told.run.command[:LONGEST_COMMAND]
    begin = "clusterkit up "
    seed = "" if told.seed is None or "--seed" in words else f"--seed {told.seed} "
    return f"{begin}{seed}{words.removeprefix(begin)}" if words.startswith(begin) else words


def _campaign_facts(record: CampaignRecord) -> Iterator[tuple[str, str]]:
    yield "campaign", code(record.campaign)
    yield "state", code(record.state)
    if record.problem:
        yield "problem", code(record.problem)
    if record.job is not None:
        yield "program", code(str(record.job.program))
        yield "job", code(f"{record.job.shape_text} ({record.job.shape.value})")
    yield "asked for", f"{number_of('run', record.asked_for)}, seed {record.seed}"
    yield "actions", code(", ".join(record.used))
    yield from _versions(record.clusterkit, record.platform)
    yield "began", utc(record.begun)
    if record.ended is not None:
        yield "took", shown(max(0.0, record.ended - record.begun))
    if record.baseline is not None:
        last = "" if record.baseline.last_step is None else f", step {record.baseline.last_step}"
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in list(record.baseline.metrics.items())[:10])
        yield "without faults", f"{shown(max(0.0, record.baseline.duration))}{last} {code(metrics)}".strip()


def _failing(run: RunRecord) -> Iterator[str]:
    yield f"### ✘ Run {run.run}"
    yield from _replayed(run)
    if run.shrunk is not None and run.shrunk.faults != run.faults:
        yield f"Shrunk in {number_of('run', run.shrunk.runs)} to:"
        yield block([*run.shrunk.faults, "", *run.shrunk.violations])
        yield block([run.shrunk.replay[:LONGEST_COMMAND]], "sh")


def _replayed(run: RunRecord) -> Iterator[str]:
    yield block([*run.faults, *(["", *run.violations] if run.violations else [])])
    yield block([run.replay[:LONGEST_COMMAND]], "sh")


def _row(run: RunRecord, outcome: str) -> Sequence[str]:
    times = [one.ended - one.at for one in run.result.recoveries if one.ended is not None]
    lost = [one.lost for one in run.result.recoveries if one.lost is not None]
    return (
        str(run.run), code("; ".join(run.faults), LONGEST_CELL), outcome,
        f"{run.duration:.1f}", ", ".join(f"{one:.1f} s" for one in times[:20]), str(sum(lost)),
    )  # fmt: skip


def _seconds(value: float | None) -> str:
    return "—" if value is None else f"{value:.1f} s"


def _safe(text: str) -> str:
    """Return the text without characters that could end a comment or begin a tag."""
    return "".join(char for char in text if char.isalnum() or char in " ._-")

"""Formats as text: start-up stages, stragglers, and goodput with its largest cost."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from clusterkit.text.durations import precise, shown
from clusterkit.text.printable import columns, printable
from clusterkit.views.tables import Column, table_lines
from clusterkit.words.account import ChainLink, Goodput, Startup, Straggler, TaskStart
from clusterkit.words.reports import Stage

NAMES = {
    "startup": "start-up", "compilation": "compilation", "training": "training", "lost": "lost training",
    "checkpointing": "checkpoints", "evaluating": "evaluation", "recovering": "recovery", "stalled": "stalls",
    "stopped": "pauses", "ending": "end", "unseen": "no steps seen",
}  # fmt: skip
USUAL = 80  # columns; the assumed width if the width is unknown
_INDENT = "  "
_STAGES = {
    Stage.BEGUN: "start", Stage.SPAWNED: "process", Stage.IMPORTED: "import", Stage.SERVING: "port",
    Stage.CONNECTED: "connected", Stage.PREPARED: "prepared", Stage.STEPPED: "first step",
}  # fmt: skip
_DROPPED = {Stage.BEGUN: 1, Stage.IMPORTED: 2, Stage.CONNECTED: 3, Stage.SERVING: 4, Stage.PREPARED: 5}
_COLUMNS = (Column("task"), *(Column(title, _DROPPED.get(of, 0), right=True) for of, title in _STAGES.items()))
MOST = 10  # the maximum number of stragglers that have their own lines


def goodput_lines(goodput: Goodput, width: int | None = None) -> list[str]:
    """Return lines with goodput, the shares of other parts, and the largest cost; no lines if no time has passed."""
    if not goodput.duration:
        return []
    width = width or USUAL
    share = f"{dict(percentages(goodput)).get('training', 0)}%"
    head = "goodput unknown: no task reported a step" if goodput.share is None else f"goodput {share}"
    lines = [_shares(_INDENT + head, goodput, width)]
    if goodput.most:
        hint = " (details: clusterkit show --startup)" if goodput.costliest == "startup" else ""
        most = printable(f"{_INDENT}largest cost: {goodput.most}{hint}")
        lines += wrap(most, width, subsequent_indent=2 * _INDENT)
    return lines


def percentages(goodput: Goodput) -> list[tuple[str, int]]:
    """Return the parts of a run that took any time, the largest first, with percentages that add up to 100."""
    parts = [(name, 100 * seconds / goodput.duration) for name, seconds in goodput.parts.items() if seconds > 0]
    whole = {name: int(share) for name, share in parts}
    by_rest = sorted(parts, key=lambda part: int(part[1]) - part[1])
    for name, _ in by_rest[: 100 - sum(whole.values())]:
        whole[name] += 1
    return sorted(whole.items(), key=lambda part: -part[1])


def _shares(head: str, goodput: Goodput, width: int) -> str:
    """Return `head` and the shares of all parts except training, without the smallest if the line would be too long."""
    texts = [f"{NAMES[name]} {share}%" for name, share in percentages(goodput) if share and name != "training"]
    while texts and columns(line := " · ".join([head, *texts])) > width:
        texts.pop()
    return line if texts else head


def startup_lines(startup: Startup, width: int | None = None) -> list[str]:
    """Return a table of start-up stages, in seconds since the run began, and what the first step had to wait for."""
    width = width or USUAL
    lines = table_lines(_COLUMNS, [_row(start) for start in startup.tasks], width, gap=2)
    if startup.seconds is None:
        return [*lines, "No step has been reported, so there is no chain to the first one."]
    chain = ", ".join(_link(link) for link in startup.chain)
    return [*lines, *wrap(f"The first step, after {precise(startup.seconds)}, waited for: {chain}.", width)]


def _row(start: TaskStart) -> tuple[str, ...]:
    times = [(stage, start.at(stage)) for stage in _STAGES]
    return (str(start.task), *("-" if at is None else precise(at) for _, at in times))


def _link(link: ChainLink) -> str:
    what = {
        Stage.BEGUN: "to be started", Stage.SPAWNED: "its process", Stage.IMPORTED: "its imports",
        Stage.SERVING: "its server", Stage.CONNECTED: "its connections", Stage.PREPARED: "its model and data",
        Stage.STEPPED: "its first step",
    }[link.stage]  # fmt: skip
    return f"{link.task} {what} {precise(link.end - link.begin)}"


def straggler_lines(stragglers: Sequence[Straggler]) -> list[str]:
    """Return a line for each of the first MOST stragglers, and a line with the number of further stragglers."""
    lines = [printable(f"  Straggler: {_sentence(one)}") for one in stragglers[:MOST]]
    return lines + ([f"  Stragglers: {len(stragglers) - MOST} more."] if len(stragglers) > MOST else [])


def _sentence(one: Straggler) -> str:
    when = "" if one.until is None else f" for {shown(one.until - one.at)}"
    return (
        f"{one.task} was about {one.factor:.1f} times as slow as its peers from {one.at:.1f} s on{when}: it {one.why}."
    )

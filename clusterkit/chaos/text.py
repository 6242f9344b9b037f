"""Formats campaigns as text (a line for each run, details of failures, a summary) and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clusterkit.chaos.model import Baseline, Outcome, SmallestSchedule, by_action, by_type
from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.views.tables import number, table
from clusterkit.words import wire
from clusterkit.words.campaign import TallyRow
from clusterkit.words.model import number_of

Replay = Callable[[Outcome | SmallestSchedule], str]


def baseline_line(baseline: Baseline, metric: str | None) -> str:
    parts = [f"Without faults: {shown(baseline.duration)}"]
    if baseline.last_step is not None:
        parts.append(f"step {baseline.last_step}")
    parts.append(number_of("checkpoint", len(baseline.checkpoints)))
    if metric is not None:
        parts.append(f"{metric} {baseline.metrics[metric]:.4g}")
    return ", ".join(parts) + "."


def run_line(outcome: Outcome, runs: int) -> str:
    mark = "✘" if outcome.violations else "✔"
    head = f"{mark} run {outcome.trial.number:>{len(str(runs))}} of {runs}  {shown(outcome.duration):>8}"
    return printable(f"{head}  {'; '.join(map(str, outcome.trial.faults))}")


def failure(outcome: Outcome, shrunk: SmallestSchedule | None, replay: Replay) -> str:
    """Format a failing run: its violations, and the commands that reproduce them."""
    lines = [f"✘ run {outcome.trial.number} failed: {'; '.join(map(str, outcome.trial.faults))}"]
    lines += [f"    {violation}" for violation in outcome.violations]
    lines += _directory_line(outcome, replay)
    if shrunk is None:
        return "\n".join(map(printable, lines))
    took = number_of("run", shrunk.runs)
    if shrunk.trial.faults == outcome.trial.faults:
        lines.append(f"  nothing smaller fails ({took})")
    else:
        lines += [f"  shrunk in {took} to: {'; '.join(map(str, shrunk.trial.faults))}"]
        lines += [f"    {violation}" for violation in shrunk.violations]
        lines.append(f"    {replay(shrunk)}")
    return "\n".join(map(printable, lines))


def interruption(outcome: Outcome, replay: Replay) -> str:
    """Format a run that was interrupted, perhaps because it hung: its directory, and the command that repeats it."""
    faults = "; ".join(map(str, outcome.trial.faults))
    head = f"– run {outcome.trial.number} was interrupted after {shown(outcome.duration)}: {faults}"
    return "\n".join(map(printable, [head, *_directory_line(outcome, replay)]))


def _directory_line(outcome: Outcome, replay: Replay) -> list[str]:
    return [f"  its directory: {outcome.directory}", "  to replay it:", f"    {replay(outcome)}"]


def summary(outcomes: Sequence[Outcome], runs: int, seed: int) -> str:
    failed = [outcome for outcome in outcomes if outcome.violations]
    passed = len(outcomes) - len(failed)
    mark = "✘" if failed else "✔" if len(outcomes) == runs else "–"
    cut = "" if len(outcomes) == runs else f" ({runs} were asked for)"
    parts = [f"{mark} {passed} of {number_of('run', len(outcomes))} passed{cut}, seed {seed}."]
    if actions := by_action(outcomes):
        rows = [(row.action, str(row.injected), str(row.recovered)) for row in actions]
        parts.append(table(("ACTION", "INJECTED", "RECOVERED"), rows).rstrip("\n"))
    if types := by_type(outcomes):
        titles = ("RECOVERY FROM", "OF", "RESTARTS", "50 %", "90 %", "LONGEST")
        parts.append(table(titles, [_times(row) for row in types]).rstrip("\n"))
    return "\n\n".join(parts)


def _times(row: TallyRow) -> tuple[str, ...]:
    times = (number(seconds, 1, " s") for seconds in (row.p50, row.p90, row.p100))
    return (row.action, str(row.type), str(row.restarts), *times)


def document(
    baseline: Baseline, outcomes: Sequence[Outcome], shrunk: dict[int, SmallestSchedule], replay: Replay,
    interrupted: Sequence[Outcome] = (), **head: Any,
) -> dict[str, Any]:  # fmt: skip
    """Convert a campaign to a JSON document, with times in seconds."""
    return {
        **head,
        "passed": sum(not outcome.violations for outcome in outcomes),
        "failed": sum(bool(outcome.violations) for outcome in outcomes),
        "baseline": {
            "duration": round(baseline.duration, 3),
            "last_step": baseline.last_step,
            "checkpoints": list(baseline.checkpoints),
            "metrics": dict(baseline.metrics),
        },
        "runs": [_run(outcome, shrunk.get(outcome.trial.number), replay) for outcome in outcomes],
        "interrupted": [_run(outcome, None, replay) for outcome in interrupted],
        "actions": [_row(row) for row in by_action(outcomes)],
        "recovery_times": [_row(row) for row in by_type(outcomes)],
    }


def _run(outcome: Outcome, shrunk: SmallestSchedule | None, replay: Replay) -> dict[str, Any]:
    small = None
    if shrunk is not None:
        small = {
            "faults": list(map(str, shrunk.trial.faults)),
            "violations": list(shrunk.violations),
            "runs": shrunk.runs,
            "replay": replay(shrunk),
        }
    return {
        "run": outcome.trial.number,
        "run_id": outcome.run_id,
        "directory": outcome.directory if outcome.violations or outcome.interrupted else None,
        "seed": outcome.trial.seed,
        "faults": list(map(str, outcome.trial.faults)),
        "injected": list(map(str, outcome.pinned)),
        "duration": round(outcome.duration, 3),
        "violations": list(outcome.violations),
        "replay": replay(outcome),
        "shrunk": small,
        "injections": [
            wire.encode(one) | {"seconds": None if one.seconds is None else round(one.seconds, 3)}
            for one in outcome.injections
        ],
        "result": dict(outcome.record),
    }


def _row(row: TallyRow) -> dict[str, Any]:
    return {name: value for name, value in wire.encode(row).items() if name != "type" or value is not None}

"""Finds the most costly part of a run, and writes a sentence about its cause."""

from __future__ import annotations

from collections.abc import Mapping

from clusterkit.ledger.incident import Incident
from clusterkit.text.durations import precise
from clusterkit.words.account import PER_SECOND

WorstCase = tuple[int, str]  # microseconds of the worst case, and its description
_TEXTS = {
    "startup": "start-up, {0} before the first step",
    "compilation": "compilation, {0} more for the first step than for a usual one",
    "checkpointing": "checkpoints, for which training waited {0}",
    "evaluating": "evaluations and other phases without steps, {0}",
    "ending": "the end, {0} between the last step and the end of the run",
}


class Costs:
    """Records the worst case and the number of cases for each part whose causes are known."""

    def __init__(self) -> None:
        self._worst: dict[str, WorstCase] = {}
        self._count: dict[str, int] = {}

    def add(self, part: str, time: int, what: str) -> None:
        """Add a case that cost `time` microseconds; `what` describes the case as a clause."""
        if time > 0:
            self._count[part] = self._count.get(part, 0) + 1
            if time > self._worst.get(part, (0, ""))[0]:
                self._worst[part] = (time, what)

    def costliest(self, parts: Mapping[str, int], current: Mapping[str, WorstCase]) -> tuple[str, str]:
        """Return the most costly part except training, and a sentence about it. `current` has the cases in progress."""
        totals = {**parts, "recovering": parts.get("recovering", 0) + parts.get("lost", 0)}
        for free in ("training", "lost", "unseen"):
            totals.pop(free, None)
        part = max(totals, key=lambda name: totals[name], default="")
        if not totals.get(part):
            return "", ""
        if part in _TEXTS:
            return part, _TEXTS[part].format(shown(totals[part]))
        worst = max(self._worst.get(part, (0, "")), current.get(part, (0, "")))[1]
        count = self._count.get(part, 0) + (part in current)
        if count < 2:
            return part, worst
        return part, f"{_summary(part, parts, count)}; the longest: {worst}"


def shown(time: int) -> str:
    """Format a time in microseconds for people."""
    return precise(time / PER_SECOND)


def cause_text(incident: Incident, at: float) -> str:
    """Describe what a recovery repairs: `ps:0 was killed by SIGKILL at 11.8 s`."""
    if incident.deaths:
        cause = incident.deaths[0]
        return f"{cause.task} {cause.exit} at {precise(cause.at)}"
    if incident.allocation is not None:
        return f"The run continued in its allocation {incident.allocation} after {precise(at)}"
    if incident.host is not None:
        return f"The host {incident.host} left at {precise(at)}"
    if files := incident.files:
        return f"{files[0] if len(files) == 1 else f'{len(files)} files'} changed at {precise(at)}"
    tasks = sorted(incident.returns)
    return f"A restart of {tasks[0] if len(tasks) == 1 else f'{len(tasks)} tasks'} was requested at {precise(at)}"


def recovery_text(incident: Incident, at: float, spent: int, lost: int) -> str:
    """Describe a recovery: `ps:0 was killed by SIGKILL at 11.8 s: 3.4 s to recover, 0.4 s of training lost`."""
    training = f"{shown(lost)} of training lost" if lost else "no training lost"
    return f"{cause_text(incident, at)}: {shown(spent)} to recover, {training}"


def _summary(part: str, parts: Mapping[str, int], count: int) -> str:
    if part == "recovering":
        lost = parts.get("lost", 0)
        also = f" and lost {shown(lost)} of training" if lost else ""
        return f"{count} recoveries took {shown(parts.get('recovering', 0))}{also}"
    return f"Training stood still {count} times, for {shown(parts[part])}"

"""Costs: which part of a run cost most, and the sentence that names the cause."""

from __future__ import annotations

from collections.abc import Mapping

from clusterkit.ledger.conditions import Conditions
from clusterkit.ledger.incident import Incident
from clusterkit.ledger.stretch import Kind
from clusterkit.text.durations import precise
from clusterkit.words.goodput import PER_SECOND

Worst = tuple[int, str]  # microseconds of the worst case, and what it was
_TEXTS = {
    "startup": "The start-up took {0} until the first step began",
    "compilation": "Compilation made the first step {0} longer than a usual one",
    "checkpointing": "Training waited {0} for checkpoints",
    "evaluating": "Training waited {0} for evaluations and other phases without steps",
    "ending": "{0} passed between the last step and the end of the run",
}


class Costs:
    """Remembers the worst case of each part that has causes, and how many there were."""

    def __init__(self) -> None:
        self._worst: dict[str, Worst] = {}
        self._count: dict[str, int] = {}

    def note(self, part: str, time: int, what: str) -> None:
        """That cost so much; `what` is a clause."""
        if time > 0:
            self._count[part] = self._count.get(part, 0) + 1
            if time > self._worst.get(part, (0, ""))[0]:
                self._worst[part] = (time, what)

    def most(self, parts: Mapping[str, int], now: Mapping[str, Worst]) -> tuple[str, str]:
        """The part that cost most beside training, and a sentence. `now` is what costs at the moment."""
        together = {**parts, "recovering": parts.get("recovering", 0) + parts.get("lost", 0)}
        for free in ("training", "lost", "unseen"):
            together.pop(free, None)
        part = max(together, key=lambda name: together[name], default="")
        if not together.get(part):
            return "", ""
        if part in _TEXTS:
            return part, _TEXTS[part].format(shown(together[part]))
        worst = max(self._worst.get(part, (0, "")), now.get(part, (0, "")))[1]
        count = self._count.get(part, 0) + (part in now)
        if count < 2:
            return part, worst
        return part, f"{_together(part, parts, count)}; the longest: {worst}"


def shown(time: int) -> str:
    """Microseconds, for people."""
    return precise(time / PER_SECOND)


def cases(parts: Mapping[str, int], begin: int, conditions: Conditions, recovery: str | None) -> dict[str, Worst]:
    """What a stretch since `begin` cost, by part, and why. `recovery` is the cause of the one that goes on."""
    found = dict[str, Worst]()
    if stopped := parts.get("stopped", 0):
        who = conditions.cause.get(Kind.PAUSED, "a task")
        found["stopped"] = stopped, f"Training stood still for {shown(stopped)} because {who} was paused"
    if stalled := parts.get("stalled", 0):
        what = f"Training stalled at {shown(begin)} for {shown(stalled)}"
        cut = conditions.cause.get(Kind.CUT)
        said = f": {conditions.stalled} held it up" if conditions.stalled else f": {cut}" if cut else ""
        found["stalled"] = stalled, what + said
    if waited := parts.get("recovering", 0):
        who = conditions.cause.get(Kind.AWAY, "a task that failed")
        waiting = f"Training stood still for {shown(waited)} for the restart of {who}"
        found["recovering"] = waited, f"{recovery}: no new step for {shown(waited)}" if recovery else waiting
    return found


def cause_text(incident: Incident, at: float) -> str:
    """What a recovery repairs: `ps:0 was killed by SIGKILL at 11.8 s`."""
    of = incident.recovery(at)
    if of.cause is not None:
        return f"{of.cause.task} {of.cause.exit} at {precise(of.cause.at)}"
    if of.allocation is not None:
        return f"The run continued in its allocation {of.allocation} after {precise(at)}"
    if of.host is not None:
        return f"The host {of.host} left at {precise(at)}"
    if of.files:
        return f"{of.files[0] if len(of.files) == 1 else f'{len(of.files)} files'} changed at {precise(at)}"
    tasks = [str(one.task) for one in of.returns]
    return f"A restart of {tasks[0] if len(tasks) == 1 else f'{len(tasks)} tasks'} was requested at {precise(at)}"


def recovery_text(incident: Incident, at: float, spent: int, lost: int) -> str:
    """`ps:0 was killed by SIGKILL at 11.8 s: 3.4 s to recover, 0.4 s of training lost`."""
    training = f"{shown(lost)} of training lost" if lost else "no training lost"
    return f"{cause_text(incident, at)}: {shown(spent)} to recover, {training}"


def _together(part: str, parts: Mapping[str, int], count: int) -> str:
    if part == "recovering":
        lost = parts.get("lost", 0)
        also = f" and lost {shown(lost)} of training" if lost else ""
        return f"{count} recoveries took {shown(parts.get('recovering', 0))}{also}"
    return f"Training stood still {count} times, for {shown(parts[part])}"

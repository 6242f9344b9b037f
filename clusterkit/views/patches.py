"""Formats the repairs that took effect in a run's tasks, for `clusterkit show --patches`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clusterkit.ledger.attempts import Attempt
from clusterkit.text.printable import at_words
from clusterkit.text.spelling import listed
from clusterkit.words.model import Task
from clusterkit.words.repairs import REPAIRS

UNKNOWN = "This version of clusterkit does not know the patch."


def patches_text(by_task: Mapping[Task, Mapping[int, Attempt]], width: int | None = None) -> str:
    """Return each patch that took effect, with its explanation. Tasks with the same patches share a section."""
    sections: dict[tuple[str, ...], list[str]] = {}
    for task, attempts in sorted(by_task.items()):
        for label, names in _labelled(task, attempts):
            sections.setdefault(names, []).append(label)
    unchanged = sections.pop((), [])
    parts = [_section(labels, names, width) for names, labels in sections.items()]
    if unchanged or not parts:
        parts.append(f"No patch took effect in {listed(unchanged) or 'any task'}.\n")
    return "\n".join(parts)


def patches_data(by_task: Mapping[Task, Mapping[int, Attempt]]) -> list[dict[str, Any]]:
    """Return, for JSON, the patches that took effect in each attempt."""
    return [
        {
            "task": str(task),
            "attempt": number,
            "patches": [{"name": name, "text": _text(name)} for name in attempt.repairs],
        }
        for task, attempts in sorted(by_task.items())
        for number, attempt in attempts.items()
    ]


def _labelled(task: Task, attempts: Mapping[int, Attempt]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the task with its patches. If its attempts have different patches, return each attempt with its own."""
    of_attempts = {number: _sorted(attempt.repairs) for number, attempt in attempts.items()}
    if len(set(of_attempts.values())) == 1:
        return [(str(task), next(iter(of_attempts.values())))]
    return [(f"{task} (attempt {number})", names) for number, names in of_attempts.items()]


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    """Sort names in the order of the table, since the order in which patches take effect says nothing."""
    order = list(REPAIRS)
    return tuple(sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name)))


def _section(labels: list[str], names: tuple[str, ...], width: int | None) -> str:
    wide = max(map(len, names))
    lines = [at_words(f"  {name:<{wide}}  {_text(name)}", width, " " * (wide + 4)) for name in names]
    return "".join(f"{line}\n" for line in [f"{listed(labels)}:", *lines])


def _text(name: str) -> str:
    return str(REPAIRS[name]) if name in REPAIRS else UNKNOWN

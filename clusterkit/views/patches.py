"""Formats the repairs that took effect in a run's tasks, for `clusterkit show --patches`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from clusterkit.ledger.attempts import Attempt
from clusterkit.text.printable import at_words
from clusterkit.text.spelling import listed
from clusterkit.words.model import Task
from clusterkit.words.repairs import REPAIRS

UNKNOWN = "This version of clusterkit does not know the patch."


def patches_text(by_task: Mapping[Task, Mapping[int, Attempt]], width: int | None = None) -> str:
    """Return the tasks with the patches that took effect in them, and then the explanations of these patches."""
    tasks: dict[tuple[str, ...], list[str]] = {}
    for task, attempts in sorted(by_task.items()):
        for label, names in _labelled(task, attempts):
            tasks.setdefault(names, []).append(label)
    found = _sorted({name for names in tasks for name in names})
    if not found:
        return "No patch took effect in this run.\n"
    rows = [(listed(labels), ", ".join(names) or "no patch") for names, labels in tasks.items()]
    explained = [(name, _text(name)) for name in found]
    return f"{_columns(rows, width)}\n{_columns(explained, width)}"


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


def _sorted(names: Collection[str]) -> tuple[str, ...]:
    """Sort names in the order of the table, since the order in which patches take effect says nothing."""
    order = list(REPAIRS)
    return tuple(sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name)))


def _columns(rows: list[tuple[str, str]], width: int | None) -> str:
    """Return lines of a name and a text. A text that is too long continues below itself."""
    wide = max(len(name) for name, _ in rows)
    lines = [at_words(f"{name:<{wide}}  {text}", width, " " * (wide + 2)) for name, text in rows]
    return "".join(f"{line}\n" for line in lines)


def _text(name: str) -> str:
    return str(REPAIRS[name]) if name in REPAIRS else UNKNOWN

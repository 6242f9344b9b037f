"""The document that a hook's command reads on its standard input. Keys and their meaning never change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from clusterkit.text.printable import printable
from clusterkit.words.job import Hook
from clusterkit.words.outcome import Failure, signal_name

SCHEMA = 1
LONGEST = 2000  # characters of a text, which a task may have written


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One event. A field that does not apply to it is None, or empty. docs/hooks.md describes the fields."""

    event: Hook
    run: str
    directory: str
    program: str
    elapsed: float
    message: str
    step: int | None = None
    checkpoint: str | None = None
    task: str | None = None
    attempt: int | None = None
    how: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    fault: str | None = None
    log: str | None = None
    others: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()
    requested: bool = False
    seconds: float | None = None
    lost_steps: int | None = None
    resumed_step: int | None = None
    report: str | None = None
    state: str | None = None
    run_exit_code: int | None = None

    def encode(self, time: float, skipped: int) -> dict[str, Any]:
        """Return the document for `json`. `time` is wall time, `skipped` counts the skipped events before it."""
        fields = {name: _cut(value) for name, value in asdict(self).items()}
        return {"schema": SCHEMA, "event": str(self.event), "time": round(time, 3), "skipped": skipped, **fields}


def about(failure: Failure) -> dict[str, Any]:
    """The fields about the failed attempt that follow from the failure alone."""
    exit_ = failure.exit
    return {
        "task": str(failure.task),
        "attempt": failure.attempt,
        "how": printable(str(exit_)),
        "exit_code": exit_.code,
        "signal": None if exit_.signal is None else signal_name(exit_.signal),
        "error": None if failure.exception is None else printable(failure.exception),
    }


def _cut(value: Any) -> Any:
    return value[:LONGEST] if isinstance(value, str) and not isinstance(value, Hook) else value

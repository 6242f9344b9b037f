"""Reads what the tasks of a run have recorded: their state after some steps, and digests of the rows of each step.

The tasks write the files and may be killed at any moment: what can't be read is left out.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from clusterkit.words.model import Task

LONGEST = 1 << 24  # bytes of a line that is read
LARGEST = 1 << 30  # bytes of a file with values that is read
Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a task: `kind` is one of KINDS; `on_read` variables differ from worker to worker by design."""

    kind: str
    on_read: bool
    values: Values

    @property
    def is_number(self) -> bool:
        """Whether it can be compared with a tolerance."""
        return bool(np.issubdtype(self.values.dtype, np.floating))


KINDS = ("weight", "optimizer", "counter", "learning-rate", "random", "metric", "batch-norm", "other")


@dataclass(frozen=True, slots=True)
class State:
    """The variables of a task, by name, after a step."""

    step: int
    variables: Mapping[str, Variable]


@dataclass(slots=True)
class Recording:
    """What an attempt of a task has recorded. `begin` is its state before its own first step.

    `rows` has, for each step, the digests of the rows that the task trained on. `logs` has the metrics of each epoch.
    """

    task: Task
    attempt: int
    states: dict[int, State] = field(default_factory=dict)
    begin: State | None = None
    end: State | None = None
    rows: dict[int, tuple[str, ...]] = field(default_factory=dict)
    callbacks: dict[str, float] = field(default_factory=dict)
    logs: dict[int, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def last_step(self) -> int | None:
        """The last step that was made."""
        steps = [*self.rows, *self.states, *([] if self.end is None else [self.end.step])]
        return max(steps, default=None)

    def counted_rows(self) -> Counter[str]:
        """How often the task trained on each row."""
        return Counter(row for rows in self.rows.values() for row in rows)


def recordings(directory: Path) -> dict[tuple[Task, int], Recording]:
    """What is recorded of a run, by task and attempt."""
    found = {}
    for path in sorted(directory.glob("*.jsonl")):
        name, _, attempt = path.stem.rpartition(".")
        kind, _, index = name.rpartition("-")
        try:
            task, number = Task.parse(f"{kind}:{index}"), int(attempt)
        except ValueError:
            continue
        recording = Recording(task, number)
        for line in _lines(path):
            _take(recording, line, directory)
        found[task, number] = recording
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST):
                try:
                    document = json.loads(line)
                except (ValueError, RecursionError):  # cut short
                    continue
                if isinstance(document, dict):
                    yield document
    except OSError:
        return


def _take(recording: Recording, line: Mapping[str, Any], directory: Path) -> None:
    step: object = line.get("step")
    epoch: object = line.get("epoch")
    match line.get("kind"):
        case "note" if isinstance(line.get("text"), str):
            recording.notes.append(line["text"][:500])
        case "rows" if _is_step(step) and isinstance(rows := line.get("rows"), list):
            recording.rows[step] = recording.rows.get(step, ()) + tuple(map(str, rows))
        case "callbacks":
            recording.callbacks |= _numbers(line.get("values"))
        case "logs" if _is_step(epoch):
            recording.logs[epoch] = _numbers(line.get("values"))
        case "state" if _is_step(step) and (variables := _variables(line, directory)) is not None:
            state = State(step, variables)
            match line.get("moment"):
                case "begin":
                    recording.begin = state
                case "end":
                    recording.end = state
                case _:
                    recording.states[step] = state


def _is_step(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _numbers(values: object) -> dict[str, float]:
    if not isinstance(values, Mapping):
        return {}
    return {str(name): float(value) for name, value in values.items() if isinstance(value, int | float)}


def _variables(line: Mapping[str, Any], directory: Path) -> dict[str, Variable] | None:
    """The variables of a state; None if its file is missing or damaged."""
    try:
        path = directory / Path(str(line["file"])).name
        if path.stat().st_size > LARGEST:
            return None
        with np.load(path, allow_pickle=False) as file:
            return {
                str(one["name"]): Variable(
                    one["kind"] if one.get("kind") in KINDS else "other", bool(one.get("on_read")), file[str(number)]
                )
                for number, one in enumerate(line["variables"])
            }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        return None


def is_same(a: Values, b: Values) -> bool:
    """Whether two values are equal bit by bit; NaN is equal to NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def distance(a: Values, b: Values, scale: float) -> float:
    """How far two arrays are apart, in Euclidean norm, as a multiple of `scale`."""
    if a.shape != b.shape:
        return math.inf
    apart = float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64)))
    if math.isnan(apart):
        return 0.0 if np.array_equal(a, b, equal_nan=True) else math.inf
    return 0.0 if apart == 0 else apart / scale if scale > 0 else math.inf

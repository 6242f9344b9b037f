"""Reads the recordings of a run's tasks.

A task may be killed while it writes its recording, so unreadable entries are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from clusterkit.exam.recording import KINDS, CoordinatorSave, Draw, Recording, Variable, VariableState
from clusterkit.words.model import Task

LONGEST = 1 << 24  # bytes; longer lines of a recording are skipped
LARGEST = 1 << 30  # bytes; larger files with variables are skipped


def recordings(directory: Path) -> dict[tuple[Task, int], Recording]:
    """Read the recordings of a run. The keys of the result are pairs of a task and the number of an attempt."""
    recorded = {}
    for path in sorted(directory.glob("*.jsonl")):
        name, _, attempt = path.stem.rpartition(".")
        kind, _, index = name.rpartition("-")
        try:
            task, number = Task.parse(f"{kind}:{index}"), int(attempt)
        except ValueError:
            continue
        recording = Recording(task, number)
        for line in _lines(path):
            _read_line(recording, line, directory)
        recorded[task, number] = recording
    return recorded


def by_task(recorded: Mapping[tuple[Task, int], Recording]) -> list[Recording]:
    """Return the recording of each task's last attempt, sorted by task."""
    last = {recording.task: recording for recording in sorted(recorded.values(), key=lambda each: each.attempt)}
    return [last[task] for task in sorted(last)]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST):
                try:
                    document = json.loads(line)
                except (ValueError, RecursionError):  # the line is truncated
                    continue
                if isinstance(document, dict):
                    yield document
    except OSError:
        return


def _read_line(recording: Recording, line: Mapping[str, Any], directory: Path) -> None:
    step: object = line.get("step")
    epoch: object = line.get("epoch")
    match line.get("kind"):
        case "note" if isinstance(line.get("text"), str):
            recording.notes.append(line["text"][:500])
        case "batch-logs" if _is_step(step) and (loss := _numbers(line.get("values")).get("loss")) is not None:
            recording.losses[step] = loss
        case "place" if isinstance(line.get("place"), str):
            recording.place = recording.place or line["place"][:500]
        case "draw" if isinstance(name := line.get("name"), str):
            recording.draws.append(Draw(name[:200], line.get("where") == "data", line.get("stateful") is True))
        case "recounted":
            recording.rows.clear()
            recording.states.clear()
        case "reported" if _is_step(step) and _is_step(number := line.get("number")):
            recording.reported.setdefault(step, number)
        case "followed" if _is_step(step):
            recording.followed.add(step)
        case "precision" if isinstance(line.get("name"), str):
            recording.precision = line["name"][:50]
        case "rows" if _is_step(step) and isinstance(rows := line.get("rows"), list):
            recording.rows[step] = recording.rows.get(step, ()) + tuple(map(str, rows))
        case "initial" if variables := _variables(line, directory):
            recording.initial = VariableState(0, variables)
        case "rates":
            recording.rates |= _numbers(line.get("values"))
        case "callbacks":
            recording.callbacks |= _numbers(line.get("values"))
        case "logs" if _is_step(epoch):
            recording.logs[epoch] = _numbers(line.get("values"))
            if _is_step(step):
                recording.epoch_ends[epoch] = step
        # With Keras on JAX, recorded states contain no variables, so the states are skipped.
        case "state" if _is_step(step) and (variables := _variables(line, directory)):
            _keep_state(recording, line.get("moment"), VariableState(step, variables))
        case "first" | "save" | "scheduled" | "changed-after-save":
            _read_line_of_coordinator(recording, line, directory)
        case _:
            _read_line_of_files(recording, line)


def _keep_state(recording: Recording, moment: object, state: VariableState) -> None:
    match moment:
        case "begin":
            recording.begin = state
        case "end":
            recording.end = state
        case _:
            recording.states[state.step] = state


def _read_line_of_coordinator(recording: Recording, line: Mapping[str, Any], directory: Path) -> None:
    """Read a line about the functions that a coordinator has scheduled, or about what it has saved."""
    scheduled: object = line.get("scheduled")
    match line.get("kind"):
        case "first" if variables := _variables(line, directory):
            recording.first = VariableState(0, variables)
        case "save" if _is_step(scheduled) and _is_step(pending := line.get("pending")):
            if variables := _variables(line, directory):
                recording.saves.append(CoordinatorSave(scheduled, pending, VariableState(scheduled, variables)))
        case "scheduled" if _is_step(number := line.get("number")):
            recording.scheduled = number
        case "changed-after-save" if _is_step(scheduled) and isinstance(name := line.get("name"), str):
            recording.changed_after_save[scheduled] = name[:200]


def _read_line_of_files(recording: Recording, line: Mapping[str, Any]) -> None:
    """Read a line about a file that the task has read or written."""
    step: object = line.get("step")
    match line.get("kind"):
        case "file" if isinstance(line.get("path"), str):
            recording.files.add(line["path"])
        case "read" if isinstance(line.get("path"), str):
            recording.read.add(line["path"])
        case "table" if isinstance(path := line.get("path"), str) and _is_step(size := line.get("size")):
            first, appended = recording.tables.get(path, (size, True))
            recording.tables[path] = (first, appended and line.get("appends") is True)
        case "backup" if _is_step(step):
            recording.backed_up_fits.append(step)
        case "shared-backup" if isinstance(path := line.get("path"), str) and _is_step(step):
            recording.shared_backup = recording.shared_backup or (path, step)
        case "replaced" if isinstance(line.get("path"), str):
            recording.replaced.add(line["path"])
        case "renamed" if isinstance(path := line.get("path"), str):
            recording.renamed[path] = recording.renamed.get(path, True) and line.get("synced") is True


def _is_step(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _numbers(values: object) -> dict[str, float]:
    if not isinstance(values, Mapping):
        return {}
    return {str(name): float(value) for name, value in values.items() if isinstance(value, int | float)}


def _variables(line: Mapping[str, Any], directory: Path) -> dict[str, Variable] | None:
    """Read the variables of a state. Return None if the file with the variables is missing, too large or damaged."""
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
    except Exception:  # reading a damaged archive may raise any exception
        return None

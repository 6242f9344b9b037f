"""Parses tasks' reports. A task can write anything to its channel, so every value is checked and bounded."""

from __future__ import annotations

import json
import math
from typing import Any

from clusterkit.words import reports as ev
from clusterkit.words.distribution import Training
from clusterkit.words.faults import Phase
from clusterkit.words.model import Task, TaskType
from clusterkit.words.repairs import REPAIRS
from clusterkit.words.reports import MOST_METRICS, Stage

Report = (
    ev.Progressed | ev.Checkpointed | ev.Resumed | ev.Ready | ev.Reached | ev.PhaseChanged | ev.ProgramEnds
    | ev.Profiled | ev.SigtermHandled | ev.StepsTimed | ev.TrainsWith | ev.InDebugger | ev.LeftDebugger
    | ev.EditorAwaited | ev.PhaseReached | ev.StepsUnreported | ev.Repaired
)  # fmt: skip
LONGEST = 1 << 16  # bytes; the maximum length of a line; longer lines are ignored
MOST = 1 << 63  # the exclusive upper limit for steps, attempts, requests and other counts
LONGEST_PATH = 4096  # characters; the kernel's limit is the same number of bytes
LONGEST_NAME = 100  # characters; the limit for names of phases, metrics, strategies and functions
LONGEST_REASON = 1000  # characters; the maximum length of an error message or a reason
MOST_WORKERS = 1000  # the maximum number of workers with step times in one report
MOST_STRATEGIES = 8  # the maximum number of strategies in one report


def parse_report(task: Task, line: bytes) -> Report | None:
    """Parse a line of the progress channel; return None if it is invalid."""
    if len(line) > LONGEST:
        return None
    try:
        message = json.loads(line)
        return _report(task, message) if isinstance(message, dict) else None
    except (ValueError, KeyError, RecursionError):
        return None


def _report(task: Task, message: dict[str, Any]) -> Report | None:
    kind, attempt = message["kind"], _count(message["attempt"])
    if kind in ("progress", "metrics"):
        metrics = _metrics(message.get("metrics", {}))
        return ev.Progressed(task, attempt, _count(message["step"]), metrics, _count_or_none(message, "total"))
    if kind == "checkpoint":
        return ev.Checkpointed(task, attempt, _count(message["step"]), _text(message["path"], LONGEST_PATH))
    if kind == "resumed":
        return ev.Resumed(task, attempt, _count(message["step"]), _path(message))
    if kind == "phase":
        return ev.PhaseChanged(task, attempt, _text(message["phase"], LONGEST_NAME), message["begun"] is True)
    if kind == "moment":
        return ev.PhaseReached(task, attempt, Phase(message["phase"]), _count(message["number"]))
    if kind == "end":
        return ev.ProgramEnds(task, attempt, message["begun"] is True)
    if kind == "profiled":
        why = _text(message.get("why", ""), LONGEST)[:LONGEST_REASON]
        steps = _count_or_none(message, "steps")
        return ev.Profiled(task, attempt, _count(message["request"]), _path(message), steps, why)
    if kind == "stage":
        return ev.Reached(task, attempt, Stage(message["stage"]))
    if kind == "sigterm":
        return ev.SigtermHandled(task, attempt, message["handled"] is True)
    if kind == "workers":
        return ev.StepsTimed(task, attempt, _workers(message["workers"]))
    if kind == "unreported":
        return ev.StepsUnreported(task, attempt, _count(message["seconds"]))
    if kind == "repair":
        return ev.Repaired(task, attempt, _repair(message["repair"]))
    if kind == "strategy":
        distributed, training = message["distributed"] is True, Training(message["training"])
        names, cluster = _names(message["strategies"]), _count(message["cluster"])
        outside = _text(message.get("outside", ""), LONGEST_PATH)
        return ev.TrainsWith(task, attempt, names, cluster, distributed, training, outside)
    if kind in ("debugger", "editor"):
        return _debugging(task, attempt, message)
    return ev.Ready(task, attempt) if kind == "ready" else None


def _debugging(task: Task, attempt: int, message: dict[str, Any]) -> ev.InDebugger | ev.LeftDebugger | ev.EditorAwaited:
    if message["kind"] == "editor":
        port = _count(message["port"])
        if not 0 < port < 1 << 16:
            raise ValueError(port)
        return ev.EditorAwaited(task, attempt, f"127.0.0.1:{port}", message["waits"] is True)
    if message["held"] is not True:
        return ev.LeftDebugger(task, attempt)
    if message.get("editor") is True:
        return ev.InDebugger(task, attempt, editor=True)
    file, function = _text(message["file"], LONGEST_PATH), _text(message["function"], LONGEST_NAME)
    return ev.InDebugger(
        task, attempt, file, _count(message["line"]), function, _text(message["error"], LONGEST_REASON)
    )


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < MOST:
        raise ValueError(value)
    return value


def _count_or_none(message: dict[str, Any], name: str) -> int | None:
    value = message.get(name)
    return None if value is None else _count(value)


def _text(value: object, longest: int) -> str:
    """Check that a value is a short string without NUL; replace what UTF-8 can't encode. Raises ValueError."""
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        raise ValueError(value)
    return value.encode(errors="replace").decode()


def _path(message: dict[str, Any]) -> str | None:
    path = message.get("path")
    return None if path is None else _text(path, LONGEST_PATH)


def _metrics(value: object) -> dict[str, float | None]:
    """Return the first MOST_METRICS metrics, skipping long or unprintable names. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(value)
    names = [name for name in value if len(name) <= LONGEST_NAME and name.isprintable()]
    return {name: _number(value[name]) for name in names[:MOST_METRICS]}


def _number(value: object) -> float | None:
    """Return the value if it is a finite float or an integer of limited size; None for anything else."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if type(value) is int and abs(value) < MOST else None


def _repair(value: object) -> str:
    """Check that a value is the name of a repair, so that a task can't fill the ledger. Raises ValueError."""
    if not isinstance(value, str) or value not in REPAIRS:
        raise ValueError(value)
    return value


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_STRATEGIES:
        raise ValueError(value)
    if not all(isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST_NAME for name in value):
        raise ValueError(value)
    return tuple(value)


def _workers(value: object) -> dict[Task, ev.StepTimes]:
    """Parse workers' step times, a JSON object of `[count, seconds]` by worker index. Raises ValueError."""
    if not isinstance(value, dict) or len(value) > MOST_WORKERS:
        raise ValueError(value)
    return {Task(TaskType.WORKER, _index(index)): _times(times) for index, times in value.items()}


def _index(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= 9):
        raise ValueError(value)
    return int(value)


def _times(value: object) -> ev.StepTimes:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(value)
    seconds = _number(value[1])
    if seconds is None or seconds < 0:
        raise ValueError(value)
    return ev.StepTimes(_count(value[0]), seconds)

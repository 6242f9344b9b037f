"""job.json and result.json: what was asked for and what came of it, written whole, and read whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clusterkit.words import wire
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult

JOB, RESULT = "job.json", "result.json"
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
# What a result lacks that was written in the last moment, in the place of a supervisor that was killed or failed.
_BARE: Mapping[str, Any] = MappingProxyType({
    "cause": None, "collateral": [], "attempts": [], "restarts": 0, "last_step": None, "duration": 0.0
})  # fmt: skip
_RESULT = frozenset(field.name for field in fields(RunResult))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What job.json holds for a client. `created` is wall time."""

    job: JobSpec
    created: float
    endpoints: dict[Task, str]
    checkpoints: Path


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(value, indent=2) + "\n")
    part.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """A file's object; an empty one where there is none that can be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def job_of(run: Path) -> RunInfo | None:
    """What was asked for; None where the run ended before it was written."""
    message = read_json(run / JOB)
    try:
        endpoints = {Task.parse(name): str(endpoint) for name, endpoint in message["endpoints"].items()}
        job = wire.decode(JobSpec, message["job"])
        return RunInfo(job, float(message["created"]), endpoints, Path(message.get("checkpoints", run / "checkpoints")))
    except _DAMAGED:
        return None


def result_of(run: Path) -> RunResult | None:
    """How the run ended; None where it goes on, or nobody was left to write it."""
    return result_from(read_json(run / RESULT))


def result_from(message: Mapping[str, Any]) -> RunResult | None:
    """What result.json says; None where that is not enough."""
    told = {name: value for name, value in {**_BARE, **message}.items() if name in _RESULT}  # a newer one says more
    try:
        result: RunResult = wire.decode(RunResult, told)
        return result
    except _DAMAGED:
        return None

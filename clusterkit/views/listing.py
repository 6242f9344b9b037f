"""The listings: `ls` has a row for each run, `ps` for each task; the same as JSON and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterkit.views.status import RunPhase, RunStatus, TaskStatus
from clusterkit.views.tables import age, number, size, table
from clusterkit.words import wire
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import RunResult


@dataclass(frozen=True, slots=True)
class Usage:
    """What a task's processes use: CPU in percent of one core, memory in bytes."""

    cpu: float
    memory: int


def run_state(live: bool, phase: RunPhase, result: RunResult | None) -> str:
    """In one word: how the run ended, or its phase; `lost` if it ended and left no result."""
    if live:
        return phase.value if phase is not RunPhase.OVER else RunPhase.STOPPING.value
    return "lost" if result is None else result.state.value


def run_row(run_id: str, state: str, age: float, job: JobSpec | None, status: RunStatus) -> dict[str, Any]:
    """The row of a run in `ls`."""
    return {
        "run_id": run_id,
        "state": state,
        "age": round(age, 3),
        "shape": job.shape.value if job else None,
        "tasks": {str(kind): count for kind, count in job.counts.items() if count} if job else {},
        "program": str(job.program) if job else None,
        "attempts": status.attempts,
        "restarts": status.restarts,
        "step": status.step,
    }


def runs_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """`ls` as a table."""
    titles = ("RUN", "STATE", "AGE", "SHAPE", "TASKS", "PROGRAM", "ATTEMPTS", "STEP")
    return table(titles, [_run_cells(row) for row in rows])


def _run_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = ", ".join(number_of(kind, count) for kind, count in row["tasks"].items())
    return (
        row["run_id"], row["state"], age(row["age"]), row["shape"] or "-", counts or "-", row["program"] or "-",
        str(row["attempts"]), number(row["step"]),
    )  # fmt: skip


def task_row(status: TaskStatus, now: float, live: bool, usage: Usage | None) -> dict[str, Any]:
    """The row of a task in `ps`. `now` is wall time."""
    up = live and status.alive and status.started is not None
    speed = status.speed(now) if live else None
    return {
        "task": str(status.task),
        "state": status.shown_state if live or not status.alive else "lost",
        "attempt": status.attempt,
        "pid": status.pid if live else None,
        "endpoint": status.endpoint,
        "ready": live and status.ready,
        "paused": live and status.paused,
        "faults": [action.value for action in status.faults.values()] if live else [],
        "uptime": round(now - (status.started or now), 3) if up else None,
        "cpu": round(usage.cpu, 1) if usage else None,
        "memory": usage.memory if usage else None,
        "step": status.step,
        "total_steps": status.total,
        "steps_per_second": None if speed is None else round(speed, 3),
        "metrics": dict(status.metrics),
        "resumed_step": status.resumed_step,
        "last_exit": None
        if status.last_exit is None
        else {**wire.encode(status.last_exit), "text": str(status.last_exit)},
    }


def tasks_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """`ps` as a table."""
    titles = (
        "TASK", "STATE", "ATTEMPT", "PID", "ENDPOINT", "UPTIME", "CPU", "MEMORY", "STEP", "STEPS/S", "LAST EXIT",
    )  # fmt: skip
    return table(titles, [_task_cells(row) for row in rows])


def _state_cell(row: Mapping[str, Any]) -> str:
    """The state, with the faults that are open: `running (slow)`."""
    return " ".join([row["state"], *(f"({name})" for name in row["faults"])])


def _task_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["task"], _state_cell(row), str(row["attempt"]), number(row["pid"]), row["endpoint"] or "-",
        age(row["uptime"]), number(row["cpu"], unit="%"), size(row["memory"]), number(row["step"]),
        number(row["steps_per_second"], 1), row["last_exit"]["text"] if row["last_exit"] else "-",
    )  # fmt: skip


def task_rows(status: RunStatus, now: float, live: bool, usage: Mapping[Task, Usage]) -> list[dict[str, Any]]:
    """The rows of all tasks in `ps`."""
    return [task_row(of, now, live, usage.get(task)) for task, of in status.tasks.items()]

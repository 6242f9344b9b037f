"""The lists that `ls` and `ps` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clusterkit.ledger.status import RunPhase, RunStatus, TaskStatus
from clusterkit.store.usage import Use
from clusterkit.text.printable import printable
from clusterkit.views.tables import Column, age, number, size, table
from clusterkit.words import wire
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import RunResult

if TYPE_CHECKING:  # modules that only campaigns need
    from clusterkit.store.campaigns import CampaignFile
    from clusterkit.words.campaign import CampaignRecord

CAMPAIGNS = (
    Column("CAMPAIGN"), Column("STATE"), Column("AGE", 2), Column("PROGRAM", 3, least=24, is_path=True), Column("RUNS"),
    Column("FAILED"), Column("SEED", 1),
)  # fmt: skip


def run_state(live: bool, phase: RunPhase, result: RunResult | None) -> str:
    """Return in one word how a run ended, or the phase of a live run; `lost` if the supervisor was killed."""
    if live:
        return phase.value if phase is not RunPhase.OVER else RunPhase.STOPPING.value
    return "lost" if result is None else result.word


def run_row(run_id: str, state: tuple[str, str], age: float, job: JobSpec | None, status: RunStatus) -> dict[str, Any]:
    """Return the row of a run in `ls`. `state` has a word for the run's state and a word for its situation."""
    return {
        "run_id": run_id,
        "state": state[0],
        "now": state[1],
        "age": round(age, 3),
        "shape": job.shape.value if job else None,
        "tasks": {str(kind): count for kind, count in job.counts.items() if count} if job else {},
        "program": str(job.program) if job else None,
        "attempts": status.attempts,
        "restarts": status.restarts,
        "step": status.step,
    }


RUNS = (
    Column("RUN"), Column("STATE"), Column("AGE", 5), Column("SHAPE", 1), Column("TASKS", 3, least=20),
    Column("PROGRAM", 6, least=24, is_path=True), Column("ATTEMPTS", 2), Column("STEP", 4),
)  # fmt: skip
PID, HOST = Column("PID", 2), Column("HOST", 2)
TASKS = (
    Column("TASK"), Column("STATE", least=7), Column("ATTEMPT", 7), PID, Column("ENDPOINT", 1),
    Column("UPTIME", 5), Column("CPU", 3), Column("MEMORY", 4), Column("STEP", 9), Column("STEPS/S", 6),
    Column("LAST EXIT", 8, least=12),
)  # fmt: skip


def runs_table(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """Return the output of `ls`, a table of at most `width` columns."""
    return table(RUNS, [_run_cells(row) for row in rows], width)


def _run_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = ", ".join(number_of(kind, count) for kind, count in row["tasks"].items())
    return (
        row["run_id"], row["now"], age(row["age"]), row["shape"] or "-", counts or "-", row["program"] or "-",
        str(row["attempts"]), number(row["step"]),
    )  # fmt: skip


def task_row(status: TaskStatus, now: float, live: bool, usage: Use | None) -> dict[str, Any]:
    """Return the row of a task in `ps`. `now` is wall time; `usage` is in percent of one core and bytes of memory."""
    up = live and status.alive and status.started is not None
    speed = status.speed(now) if live else None
    return {
        "task": str(status.task),
        "state": status.shown_state if live or not status.alive else "lost",
        "attempt": status.attempt,
        "host": status.host,
        "pid": status.pid if live else None,
        "endpoint": status.endpoint,
        "ready": live and status.ready,
        "paused": live and status.paused,
        "straggler": straggler_note(status) if live else None,
        "debugger": status.debugger if live else None,
        "faults": [action.value for action in status.faults.values()] if live else [],
        "uptime": round(now - (status.started or now), 3) if up else None,
        "cpu": round(usage[0], 1) if usage else None,
        "memory": usage[1] if usage else None,
        "step": status.step,
        "total_steps": status.total,
        "steps_per_second": None if speed is None else round(speed, 3),
        "metrics": dict(status.metrics),
        "resumed_step": status.resumed_step,
        "last_exit": None
        if status.last_exit is None
        else {**wire.encode(status.last_exit), "text": str(status.last_exit)},
    }


def straggler_note(status: TaskStatus) -> str | None:
    """Return how much slower than its peers the task is, and why; None if the task is not a straggler."""
    one = status.straggling
    return None if one is None else f"about {one.factor:.1f} times as slow as its peers: it {one.why}"


def tasks_table(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """Return the output of `ps`, at most `width` columns wide. If the job has hosts, host names replace the pids."""
    columns = tuple(HOST if column is PID and any(row["host"] for row in rows) else column for column in TASKS)
    return table(columns, [_task_cells(row) for row in rows], width)


def _step_cell(row: Mapping[str, Any]) -> str:
    """Return the step and, if known, the total number of steps: `450/1500`."""
    step, total = row["step"], row["total_steps"]
    return number(step) if step is None or total is None or step > total else f"{step}/{total}"


def _state_cell(row: Mapping[str, Any]) -> str:
    """Return a task's state with notes about open faults, such as `running (slow)`, and about a straggler.

    The note about a task in the debugger names the place where the task waits.
    """
    notes = [*row["faults"], *(["straggler"] if row["straggler"] else [])]
    notes += (
        [f"debugger: {printable(row['debugger'].partition(' in ')[0].rpartition('/')[2])}"] if row["debugger"] else []
    )
    return " ".join([row["state"], *(f"({note})" for note in notes)])


def _task_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["task"], _state_cell(row), str(row["attempt"]), row["host"] or number(row["pid"]), row["endpoint"] or "-",
        age(row["uptime"]), number(row["cpu"], unit="%"), size(row["memory"]), _step_cell(row),
        number(row["steps_per_second"], 1), row["last_exit"]["text"] if row["last_exit"] else "-",
    )  # fmt: skip


def task_rows(status: RunStatus, now: float, live: bool, usage: Mapping[Task, Use]) -> list[dict[str, Any]]:
    return [task_row(of, now, live, usage.get(task)) for task, of in status.tasks.items()]


def campaign_row(file: CampaignFile, now: float) -> dict[str, Any]:
    """Return the row of a campaign, with gaps if the campaign's record is damaged. `now` is wall time."""
    try:
        record: CampaignRecord | None = file.record()
    except ClusterkitError:
        record = None
    return {
        "campaign": file.campaign_id,
        "state": record.state if record else "damaged",
        "age": round(now - (record.begun if record else file.changed()), 3),
        "program": str(record.job.program) if record and record.job else None,
        "runs": len(record.runs) if record else 0,
        "asked_for": record.asked_for if record else 0,
        "failed": len(record.failing) if record else 0,
        "seed": record.seed if record else None,
    }


def campaigns_table(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """Return the output of `ls --campaigns`, a table of at most `width` columns."""
    return table(CAMPAIGNS, [_cells(row) for row in rows], width)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    seed = "-" if row["seed"] is None else str(row["seed"])
    runs = f"{row['runs']}/{row['asked_for']}"
    return row["campaign"], row["state"], age(row["age"]), row["program"] or "-", runs, str(row["failed"]), seed

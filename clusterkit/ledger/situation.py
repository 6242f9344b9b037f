"""The situation: what a run does now, and for which task, decided once for everybody who shows it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunPhase
from clusterkit.words.model import Task, TaskState
from clusterkit.words.outcome import Failure


class RunActivity(enum.StrEnum):
    """What a run does."""

    STARTING = "starting"
    TRAINING = "training"
    STALLED = "stalled"
    PAUSED = "paused"
    RECOVERING = "recovering"
    NO_HOST = "waiting for hosts"
    WAITING = "waiting"  # for a change of the program
    STOPPING = "stopping"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Situation:
    """What a run does, and since when, in seconds since it began; `tasks` are those that it is about.

    `verdict` is what was found about a stall, `failure` what a recovery repairs. `aside` are the tasks that are paused
    or restart while training goes on, `faults` those that are open.
    """

    doing: RunActivity
    since: float | None = None
    tasks: tuple[Task, ...] = ()
    attempt: int | None = None  # that comes next, of a recovery
    verdict: str = ""
    failure: Failure | None = None
    stepped: float | None = None  # when the last new step was reported
    aside: tuple[Task, ...] = ()
    faults: tuple[str, ...] = ()


def situation_of(ledger: Ledger) -> Situation:
    """What the run does, as of the newest event."""
    run, pace, conditions = ledger.run, ledger.pace, ledger.time.conditions
    mending = ledger.incidents.mending()
    repairs = [one for one in mending if one.trainers and not one.course.settled]
    restarting = tuple(sorted({task for one in mending for task in one.returns}))
    idle = tuple(sorted(pace.paused))
    faults = tuple(event.fault for event in ledger.faults.open.values())
    plain = Situation(
        RunActivity.TRAINING, stepped=pace.stepped, faults=faults, aside=tuple(sorted({*restarting, *idle}))
    )
    if run.phase is RunPhase.OVER:
        return Situation(RunActivity.OVER, stepped=pace.stepped)
    if run.phase is RunPhase.STOPPING or conditions.over:
        left = tuple(task for task, of in run.tasks.items() if of.alive)
        return Situation(RunActivity.STOPPING, tasks=left, stepped=pace.stepped)
    if run.phase is RunPhase.WAITING:
        return Situation(RunActivity.WAITING, failure=pace.failure, stepped=pace.stepped)
    waiting = tuple(task for task, of in run.tasks.items() if of.state is TaskState.WAITING)
    if ledger.job.hosts.count and waiting and run.phase is RunPhase.RUNNING:
        return Situation(RunActivity.NO_HOST, tasks=waiting, failure=pace.failure, stepped=pace.stepped)
    if pace.stall is not None:
        begun, event = pace.stall
        blamed = () if event.task is None else (event.task,)
        verdict = f"{event.verdict}." if event.verdict else event.text
        return Situation(RunActivity.STALLED, begun, blamed, verdict=verdict, stepped=pace.stepped, faults=faults)
    if repairs or conditions.failed:
        tasks = restarting or tuple(sorted(conditions.failed))
        attempt = max((back.attempt for one in repairs for back in one.returns.values()), default=None)
        since = min((one.began for one in repairs), default=pace.failed)
        return Situation(RunActivity.RECOVERING, since, tasks, attempt, failure=pace.failure, stepped=pace.stepped)
    if idle and not pace.went_on:
        return Situation(RunActivity.PAUSED, min(pace.paused.values()), idle, stepped=pace.stepped, faults=faults)
    if not conditions.seen:
        return Situation(RunActivity.STARTING, faults=faults)
    return plain

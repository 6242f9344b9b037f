"""The situation: the current activity of a run and the tasks that it concerns, decided once for all views."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunPhase
from clusterkit.machine.scope import restart_scope
from clusterkit.words.model import Task, TaskState
from clusterkit.words.outcome import Failure


class RunActivity(enum.StrEnum):
    """The activity of a run."""

    STARTING = "starting"
    TRAINING = "training"
    STALLED = "stalled"
    PAUSED = "paused"
    RECOVERING = "recovering"
    NO_HOST = "waiting for hosts"
    WAITING = "waiting"  # the failed job waits for a change of its program
    STOPPING = "stopping"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Situation:
    """The activity of a run, since when (in seconds since the run began), and the `tasks` that it concerns.

    `verdict` is the finding about a stall, `failure` the failure that a recovery repairs. `aside` are tasks that are
    paused or restart while training continues. `faults` are the open faults.
    """

    doing: RunActivity
    since: float | None = None
    tasks: tuple[Task, ...] = ()
    attempt: int | None = None  # in a recovery, the number of the next attempt
    verdict: str = ""
    failure: Failure | None = None
    stepped: float | None = None  # when the last new step was reported
    aside: tuple[Task, ...] = ()
    faults: tuple[str, ...] = ()
    scope: tuple[Task, ...] = ()  # in a stall, the tasks that a restart of the blamed task restarts


def situation_of(ledger: Ledger) -> Situation:
    """Return the situation of the run as of the newest event."""
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
        scope = tuple(sorted(restart_scope(ledger.job, event.task))) if event.task is not None else ()
        stalled = Situation(RunActivity.STALLED, begun, blamed, verdict=verdict, stepped=pace.stepped)
        return replace(stalled, faults=faults, scope=scope)
    if repairs or conditions.failed:
        tasks = restarting or tuple(sorted(conditions.failed))
        attempt = max((back.attempt for one in repairs for back in one.returns.values()), default=None)
        since = min((one.began for one in repairs), default=pace.failed)
        return Situation(RunActivity.RECOVERING, since, tasks, attempt, failure=pace.failure, stepped=pace.stepped)
    if idle and (not pace.went_on or pace.paused.keys() >= {*ledger.job.steppers}):  # steps may still be on their way
        return Situation(RunActivity.PAUSED, min(pace.paused.values()), idle, stepped=pace.stepped, faults=faults)
    if not conditions.seen:
        return Situation(RunActivity.STARTING, faults=faults)
    return plain

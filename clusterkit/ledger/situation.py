"""The situation: a run's current activity and the tasks that it concerns, determined in one place for all views."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunPhase
from clusterkit.machine.restart import restart_scope
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
    WAITING = "waiting"  # the job failed and is waiting for a change to its program
    STOPPING = "stopping"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Situation:
    """The activity of a run, when the activity began (in seconds since the run began), and the `tasks` concerned.

    `verdict` is the finding about a stall, `failure` the failure that a recovery repairs. `tasks_aside` are tasks
    that are paused or restarting while training continues. `faults` are the open faults.
    """

    activity: RunActivity
    since: float | None = None
    tasks: tuple[Task, ...] = ()
    attempt: int | None = None  # in a recovery, the highest number of the new attempts
    verdict: str = ""
    failure: Failure | None = None
    last_step_at: float | None = None  # when the last new step was reported
    tasks_aside: tuple[Task, ...] = ()
    faults: tuple[str, ...] = ()
    scope: tuple[Task, ...] = ()  # in a stall, the tasks that restart if the blamed task is restarted


def situation_of(ledger: Ledger) -> Situation:
    run, stops, conditions = ledger.run, ledger.interruptions, ledger.time.conditions
    situation = partial(Situation, last_step_at=stops.last_step_at)
    open_restarts = ledger.incidents.open_restarts()
    training_restarts = [one for one in open_restarts if one.trainers and not one.course.settled]
    restarting = tuple(sorted({task for one in open_restarts for task in one.returns}))
    paused = tuple(sorted(stops.paused_since))
    faults = tuple(event.fault for event in ledger.faults.open.values())
    if run.phase is RunPhase.OVER:
        return situation(RunActivity.OVER)
    if run.phase is RunPhase.STOPPING or conditions.ends:
        return situation(RunActivity.STOPPING, tasks=tuple(task for task, of in run.tasks.items() if of.alive))
    if run.phase is RunPhase.WAITING:
        return situation(RunActivity.WAITING, failure=stops.failure)
    waiting = tuple(task for task, of in run.tasks.items() if of.state is TaskState.WAITING)
    if ledger.job.hosts.count and waiting and run.phase is RunPhase.RUNNING:
        return situation(RunActivity.NO_HOST, tasks=waiting, failure=stops.failure)
    if stops.stall is not None:
        begun, event = stops.stall
        blamed = () if event.task is None else (event.task,)
        verdict = f"{event.verdict}." if event.verdict else event.text
        scope = tuple(sorted(restart_scope(ledger.job, event.task))) if event.task is not None else ()
        return situation(RunActivity.STALLED, begun, blamed, verdict=verdict, faults=faults, scope=scope)
    if training_restarts or conditions.failed:
        tasks = restarting or tuple(sorted(conditions.failed))
        attempt = max((back.attempt for one in training_restarts for back in one.returns.values()), default=None)
        since = min((one.began for one in training_restarts), default=stops.recovery_since)
        return situation(RunActivity.RECOVERING, since, tasks, attempt, failure=stops.failure)
    # The report of a step completed before the pause may arrive late, so a single step does not end the pause.
    if paused and (not stops.has_continued or stops.paused_since.keys() >= {*ledger.job.steppers}):
        return situation(RunActivity.PAUSED, min(stops.paused_since.values()), paused, faults=faults)
    if not conditions.has_steps:
        return Situation(RunActivity.STARTING, faults=faults)
    return situation(RunActivity.TRAINING, faults=faults, tasks_aside=tuple(sorted({*restarting, *paused})))

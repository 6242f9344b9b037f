"""Describes the current situation of a run in a word and a sentence, for `show`, `ps` and the page."""

from __future__ import annotations

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.situation import RunActivity, Situation, situation_of
from clusterkit.ledger.status import QUIET, RunStatus
from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.text.spelling import listed
from clusterkit.views.naming import because, counted, failed, measured, named, plain, same_error
from clusterkit.words.model import Task, TaskState, number_of
from clusterkit.words.outcome import Failure, RunResult, RunState

FEW = 3  # the maximum number of metrics that are named
MISSED = 4.0  # the sentence mentions missing steps after this many times the usual interval between two steps


def told(ledger: Ledger, wall: float, now: float) -> tuple[str, str, float | None]:
    """Return a word and a sentence about a live run, and the steps per second; None if the run is completing no steps.

    `wall` is a wall time that is `now` seconds after the run began.
    """
    at, found, run = max(now, ledger.now), situation_of(ledger), ledger.run
    speed = run.speed(wall) if found.activity is RunActivity.TRAINING else None
    silence = 0.0 if found.last_step_at is None else at - found.last_step_at
    if silence > max(QUIET, MISSED / speed if speed else 0.0):
        speed = None
    else:
        silence = 0.0
    return found.activity.value, printable(_sentence(found, run, speed, silence, at)), speed


def _sentence(found: Situation, run: RunStatus, speed: float | None, silence: float, now: float) -> str:
    tasks, since = named(found.tasks), found.since
    long = "" if since is None else f" for {shown(max(0.0, now - since))}"
    match found.activity:
        case RunActivity.STARTING:
            return _starting(run)
        case RunActivity.TRAINING:
            return _training(found, run, speed, silence)
        case RunActivity.STALLED:
            stuck = f"; {tasks} {_are(found.tasks)} stuck" if tasks else ""
            return f"No step{long}{_step(run)}{stuck}."
        case RunActivity.PAUSED:
            return f"{tasks} {_are(found.tasks)} paused{long}{_step(run)}; training waits."
        case RunActivity.RECOVERING:
            return _recovering(found, long)
        case RunActivity.NO_HOST:
            return f"{tasks} {'wait' if len(found.tasks) > 1 else 'waits'} for a host{_step(run)}."
        case RunActivity.WAITING:
            why = run.reason if found.failure is None else failure_text(found.failure)
            return f"The job failed: {why}. Waiting for a change to its program."
        case RunActivity.STOPPING:
            left = f" Waiting for {tasks} to end." if tasks else ""
            return f"The run is ending{_step(run)}: {run.reason or 'every step is made'}.{left}"
        case RunActivity.OVER:
            return f"The run is over: {run.reason}."


def _starting(run: RunStatus) -> str:
    if run.began_at is None:
        return "The supervisor is preparing the run."
    for state in (TaskState.HELD, TaskState.WAITING):
        if tasks := [task for task, of in run.tasks.items() if of.state is state]:
            return f"{named(tasks)} {'wait' if len(tasks) > 1 else 'waits'} to start."
    if tasks := [task for task, of in run.tasks.items() if of.state is TaskState.STARTING]:
        return f"Starting {named(tasks)}."
    if tasks := [task for task, of in run.tasks.items() if of.state is TaskState.RUNNING and not of.ready]:
        verb = "import their libraries and connect" if len(tasks) > 1 else "imports its libraries and connects"
        return f"{named(tasks)} {verb}; no step has been reported."
    return "Every task is up; no step has been reported."


def _training(found: Situation, run: RunStatus, speed: float | None, silence: float) -> str:
    parts = [_step(run, "Step ")] if run.step is not None else ["Training"]
    if speed is not None:
        parts.append(f"{speed:.1f} steps/s")
    if speed and run.total is not None and run.step is not None and run.total > run.step:
        parts.append(f"{shown((run.total - run.step) / speed)} left")
    if run.metrics:
        parts.append(measured(run.metrics, FEW))
    text = ", ".join(parts)
    if silence:
        text += f"; no step for {shown(silence)}"
    if aside := found.tasks_aside:
        text += f". {_aside(aside, run)}; training continues"
    return text + "." + "".join(f" Fault: {fault}." for fault in found.faults)


def _aside(tasks: tuple[Task, ...], run: RunStatus) -> str:
    paused = tuple(task for task in tasks if run.tasks[task].paused)
    restarting = tuple(task for task in tasks if task not in paused)
    groups = ((paused, "paused"), (restarting, "restarting"))
    return listed([f"{named(some)} {_are(some)} {doing}" for some, doing in groups if some])


def _recovering(found: Situation, long: str) -> str:
    why = "A restart was requested" if found.failure is None else failure_text(found.failure)
    attempt = "" if found.attempt is None else f" (attempt {found.attempt})"
    verb = "restart" if len(found.tasks) > 1 else "restarts"
    return f"{why}. {counted(found.tasks)} {verb}{attempt}; no new step{long}."


def _step(run: RunStatus, before: str = ", at step ") -> str:
    total = "" if run.total is None else f" of {run.total:,}"
    return "" if run.step is None else f"{before}{run.step:,}{total}"


def _are(tasks: tuple[Task, ...]) -> str:
    return "are" if len(tasks) > 1 else "is"


def failure_text(failure: Failure) -> str:
    """Describe a failure, with its exception if known: `worker:1 failed: ValueError: bad (attempt 2)`."""
    if failure.exception is None:
        return failed(failure)
    told = f"{failure.task} failed: {plain(failure.exception)} (attempt {failure.attempt}){because(failure)}"
    return printable(told)


def reason_of(result: RunResult) -> str:
    """Return why a run ended: a doubt about its success, the failure that ended it, or the recorded reason."""
    cause = None if result.state is RunState.SUCCEEDED else result.cause
    if result.doubts:
        return printable(result.doubts[0].means.removesuffix("."))
    if cause is None or cause.exception is None:
        return printable(result.reason)
    if result.same:
        return same_error([cause.task, *(one.task for one in result.same)], cause.exception)
    return failure_text(cause)


def ending(result: RunResult | None) -> str:
    """Return the sentence about a run that is over. `result` is None if the run's supervisor was killed."""
    if result is None:
        return "The run was lost: its supervisor ended without writing a result. Its journal is shown."
    after = f" after {shown(result.duration)}" if result.duration else ""
    if result.state is RunState.SUCCEEDED and result.restarts:
        after += f", with {number_of('restart', result.restarts)}"
    without = f" It continued without {listed(result.given_up)}." if result.given_up else ""
    metrics = measured(result.metrics, FEW) if result.state is RunState.SUCCEEDED else ""
    parts = [] if result.fine else [reason_of(result)]  # omit the usual reason, an exit with code 0
    parts += [metrics] if metrics else []
    return f"The run {result.ended}{after}{': ' * bool(parts)}{'; '.join(parts)}.{without}"

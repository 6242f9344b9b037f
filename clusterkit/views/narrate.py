"""Sentences about events."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from clusterkit.text.durations import shown
from clusterkit.text.printable import printable, printable_lines
from clusterkit.views import surroundings
from clusterkit.views.naming import because, failed, named
from clusterkit.words import events as ev
from clusterkit.words.model import TaskType, number_of
from clusterkit.words.outcome import signal_name
from clusterkit.words.verification import Equality


class Level(enum.IntEnum):
    """How important a sentence is. The user chooses the lowest level that is shown."""

    DEBUG = 10
    INFO = 20
    WARNING = 30


_OF_LINES = ev.Warned | ev.TrainAlone | ev.Verified  # events whose sentences contain intended line breaks


def sentence(event: ev.Event) -> tuple[Level, str] | None:
    """Return the level and the sentence of an event; None for an event that the console never shows."""
    told = _told(event)
    if told is None:
        return None
    level, text = told
    # Only these events contain intended line breaks. Other line breaks come from a task or a file, and become symbols.
    return level, printable_lines(text) if isinstance(event, _OF_LINES) else printable(text)


# Events that the console never shows, because other events or other views show the same facts.
_Silent = (
    ev.Began | ev.Ticked | ev.AllocationEnding | ev.Interrupted | ev.LifelineLost | ev.Impaired | ev.Crashed
    | ev.StorageFailed | ev.Inspected | ev.TensorBoardLost | ev.DashboardLost | ev.CheckpointFound | ev.SpawnFailed
    | ev.Exited | ev.Swept | ev.Drained | ev.AttemptEnded | ev.Finished | ev.Progressed | ev.Ready | ev.Reached
    | ev.ProgramEnds | ev.SigtermHandled | ev.StepsTimed | ev.TrainsWith | ev.PhaseReached
    | ev.StepsUnreported | ev.Repaired
)  # fmt: skip
_OfAttempt = ev.Changed | ev.Spawned | ev.Resumed | ev.Profiled | ev.PhaseChanged | ev.Checkpointed | ev.Paused
_Rare = (
    ev.LeftEarly | ev.TrainAlone | ev.CannotExit | ev.Shrunk | ev.ProgramChanged | ev.WaitsForChange | ev.EditTrains
    | ev.Verified | ev.TensorBoardReady | ev.DashboardReady | ev.InDebugger | ev.LeftDebugger | ev.EditorAwaited
)  # fmt: skip


def _told(event: ev.Event) -> tuple[Level, str] | None:
    """Return the level and sentence of an event. mypy reports any event that is missing both here and in `_Silent`."""
    if isinstance(event, _Silent):
        return None
    if isinstance(event, _OfAttempt):
        return _of_attempt(event)
    match event:
        case ev.Placed() | ev.HostBack() | ev.HostJoined():
            return Level.INFO, surroundings.of_host(event)
        case ev.HostCut() | ev.HostDraining() | ev.HostLost() | ev.HostAvoided():
            return Level.WARNING, surroundings.of_host(event)
        case ev.Noted(text, minor):
            return Level.DEBUG if minor else Level.INFO, text
        case ev.Failed(failure):
            return Level.WARNING, f"{failed(failure)}{_too_early(event)}."
        case ev.RestartPlanned():
            return Level.WARNING, _planned(event)
        case ev.Requested(terminal=True):
            return Level.DEBUG, _of_request(event)
        case ev.Requested() | ev.RequestRefused():
            return Level.INFO, _of_request(event)
        case ev.FaultInjected() | ev.FaultTook() | ev.FaultHealed():
            return _of_fault(event)
        case ev.Succeeded(task):
            others = " Ending the other tasks." if event.others else ""
            return Level.INFO, f"{task} exited with code 0: the job is done.{others}"
        case ev.Continued(allocation):
            return Level.INFO, f"The run continues in allocation {allocation}."
        case ev.Stopping():
            return Level.WARNING, _stopping(event)
        case ev.Warned(text) | ev.Stalled(text):
            return Level.WARNING, text
        case ev.Straggling() | ev.KeepsUp():
            return _of_pace(event)
        case _:
            return _of_others(event)


def _of_attempt(event: _OfAttempt) -> tuple[Level, str] | None:
    match event:
        case ev.Changed(task, attempt, state):
            return Level.DEBUG, f"{task} is {state} (attempt {attempt})."
        case ev.Spawned(task, attempt, where):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return Level.INFO, f"{task} is started{again} ({where})."
        case ev.Resumed(task, attempt, step, path):
            if step == 0 and path is None:
                return (Level.INFO, f"{task} begins at step 0: it found no checkpoint.") if attempt > 1 else None
            origin = f" from {path}" if path else ""
            return Level.INFO, f"{task} resumed at step {step}{origin}."
        case ev.Profiled():
            return Level.INFO, _of_profile(event)
        case ev.PhaseChanged(task, _, phase, begun):
            how = "does not train now" if begun else "continues to train"
            return Level.DEBUG, f"{task} {how}: {phase}."
        case ev.Checkpointed(task, _, step, path):
            return Level.DEBUG, f"{task} wrote the checkpoint of step {step}: {path}"
        case ev.Paused(task, _, paused, terminal):
            # The command that the terminal has stopped says so itself, once for all tasks.
            level = Level.DEBUG if terminal else Level.INFO
            return level, f"{task} {'is paused (SIGSTOP)' if paused else 'continues (SIGCONT)'}."


def _stopping(event: ev.Stopping) -> str:
    if event.suspends:
        return f"The allocation ends: {event.reason}. The run continues in the next one."
    what = "every task" if event.tasks else "the run"
    waits = event.tasks and event.grace and event.interrupted
    return f"Stopping {what}: {event.reason}.{f' {waiting(event.tasks, event.grace)}' if waits else ''}"


_ADVICE = {
    ev.Slowness.STOPPED: "find out what stops it: a fault, a debugger or a quota",
    ev.Slowness.STARVED: "give it a CPU of its own (--cpus-per-task), or less beside it",
    ev.Slowness.BUSY: "compare its input and its work per step with its peers' (clusterkit profile)",
    ev.Slowness.STEPS: "compare its input, its host and its CPU with its peers' (clusterkit top, clusterkit profile)",
}


def _of_others(event: _Rare) -> tuple[Level, str]:
    """Return the level and sentence of a rare event: an early exit, a lost worker, an edit, a page, or the debugger."""
    match event:
        case ev.LeftEarly(task, _, step):
            wrong = task.type is TaskType.PS  # a ps has to serve until the job is done
            return (Level.WARNING if wrong else Level.INFO), f"{task} exited with code 0{_at_step(step)}."
        case ev.TrainAlone(found):
            said = printable(f"{found} The program needs:")
            return Level.WARNING, "\n".join([said, *(f"    {printable(line)}" for line in found.mend)])
        case ev.CannotExit():
            return Level.WARNING, _cannot_exit(event)
        case ev.Shrunk():
            return Level.WARNING, _shrunk(event)
        case ev.ProgramChanged(_, _, problem, same):
            return (Level.WARNING if problem else Level.INFO if same else Level.DEBUG), surroundings.of_change(event)
        case ev.WaitsForChange():
            return Level.WARNING, surroundings.of_waiting(event)
        case ev.EditTrains():
            return Level.INFO, surroundings.of_training(event)
        case ev.Verified(verdict):
            level = Level.INFO if verdict.equality is Equality.EQUAL else Level.WARNING
            return level, "\n".join(map(printable, verdict.lines))
        case ev.TensorBoardReady(address):
            return Level.INFO, f"TensorBoard answers at {address}"
        case ev.DashboardReady(address):
            return Level.DEBUG, f"The dashboard answers at {address}"
        case ev.InDebugger() | ev.LeftDebugger() | ev.EditorAwaited():
            return _of_debugger(event)


def _of_pace(event: ev.Straggling | ev.KeepsUp) -> tuple[Level, str]:
    match event:
        case ev.Straggling(task, _, slowness, factor, _, why):
            times = f"about {factor:.1f} times as slow as its peers"
            return Level.WARNING, f"{task} is {times}: it {why}. To speed training up, {_ADVICE[slowness]}."
        case ev.KeepsUp(task, _, seconds):
            return Level.INFO, f"{task} keeps up with its peers again, after {shown(seconds)}."


def waiting(tasks: Sequence[object], grace: float) -> str:
    """Return the answer to the first Ctrl-C, given the tasks that have `grace` seconds to end."""
    return f"Waiting up to {grace:g} s for {named(tasks)}; Ctrl-C again kills."


def _too_early(event: ev.Failed) -> str:
    """Return the end of a sentence about an exit with code 0 that was too early; empty for other exits."""
    if not event.failure.exit.ok:
        return ""
    return f"{_at_step(event.failure.step)}, {shown(event.later)} ago, and others can't continue without it"


def is_bad(event: ev.Event) -> bool:
    """Return whether the event's sentence is about something that went wrong."""
    if isinstance(event, ev.FaultTook):
        return not event.done
    if isinstance(event, ev.Verified):
        return event.verdict.differs
    broken = isinstance(event, ev.ProgramChanged) and bool(event.problem)
    return broken or isinstance(
        event, ev.Failed | ev.Warned | ev.Stalled | ev.WaitsForChange | ev.CannotExit | ev.TrainAlone
    )


def _of_fault(event: ev.FaultInjected | ev.FaultTook | ev.FaultHealed) -> tuple[Level, str] | None:
    match event:
        case ev.FaultInjected(number, fault):
            return Level.INFO, f"Fault {number}: {fault}{_hit(event)}{_at_step(event.step, ',')}."
        case ev.FaultTook(number, detail, done):
            if not done:
                return Level.WARNING, f"Fault {number} could not be injected: {detail}."
            return (Level.INFO, f"Fault {number}: {detail}.") if detail else None
        case ev.FaultHealed(number, fault, _, _, why):
            return Level.INFO, f"Fault {number} is healed, since {why}: {fault}."


def _of_request(event: ev.Requested | ev.RequestRefused) -> str:
    if isinstance(event, ev.RequestRefused):
        return f"Refused: {' '.join(event.problem.splitlines())}"
    if event.terminal:
        return f"The terminal {'stops' if event.verb is ev.Verb.PAUSE else 'continues'} the command of the run."
    tasks = named(event.tasks) or "every task"
    match event.verb:
        case ev.Verb.KILL:
            return f"Asked to send {signal_name(event.signal)} to {tasks}."
        case ev.Verb.STACKS:
            return f"Asked for the Python stacks of {tasks}."
        case ev.Verb.PROFILE:
            return f"Asked for a profile of {tasks}, over {number_of('step', event.steps)}."
        case ev.Verb.FAULT:
            return f"Asked to inject the fault: {event.fault}."
        case ev.Verb.HEAL:
            return "Asked to heal all faults."
        case ev.Verb.DOWN:
            return f"Asked to end the run{' without a grace period' if event.force else ''}."
        case verb:
            return f"Asked to {verb} {tasks}."


def _of_profile(event: ev.Profiled) -> str:
    if event.path is None:
        return f"{event.task} gave no profile: {event.why}."
    of = "" if event.steps is None else f" of {number_of('step', event.steps)}"
    return f"{event.task} wrote a profile{of}: {event.path}"


def _of_debugger(event: ev.InDebugger | ev.LeftDebugger | ev.EditorAwaited) -> tuple[Level, str]:
    match event:
        case ev.InDebugger(editor=True):
            return Level.INFO, f"An editor is attached to {event.task}; until it leaves, no time limit counts."
        case ev.InDebugger():
            why = f" after {event.error}" if event.error else ""
            how = f"Connect with: clusterkit debug {event.task}"
            return Level.WARNING, f"{event.task} is waiting in the debugger at {event.place}{why}. {how}"
        case ev.LeftDebugger():
            return Level.INFO, f"{event.task} has left the debugger."
        case ev.EditorAwaited(task, _, address, waits):
            then = " Its program begins when one is attached." if waits else ""
            return Level.WARNING, f"{task} runs debugpy at {address}, for an editor to attach to.{then}"


def _hit(event: ev.FaultInjected) -> str:
    """Return a phrase with the tasks that a fault hit, if the text of the fault does not name these tasks."""
    names = [str(task) for task in event.tasks]
    return "" if set(names) <= set(re.split(r"[\s,]+", event.fault)) else f", into {named(names)}"


def _at_step(step: int | None, before: str = "") -> str:
    return "" if step is None else f"{before} at step {step}"


def _planned(event: ev.RestartPlanned) -> str:
    if event.files:
        return surroundings.of_restart(event)
    names = named(event.tasks)
    verb = "start" if len(event.tasks) > 1 else "starts"
    if event.host is not None:
        return f"{names} {verb} again on other hosts, since {event.host} leaves (not charged to the restart budget)."
    if event.cause is None:
        return f"{names} {verb} again, as asked (not charged to the restart budget)."
    charge = f"restart {event.charged} of {event.budget}"
    if event.free or not event.charged:
        charge = "not charged to the restart budget"
    alike = {event.cause.task, *(failure.task for failure in event.same)}  # tasks whose failure was already shown
    how, origin = f"{event.cause.task} {event.cause.exit}", because(event.cause)
    why = (f"{origin}: {how}" if origin else f" because {how}") if {*event.tasks} != alike else ""
    when = f"in {event.delay:.1f} s" if event.delay >= 0.05 else "at once"
    return f"{names} {verb} again {when}{why} ({charge})."


def _cannot_exit(event: ev.CannotExit) -> str:
    down = event.down
    waits = f"TensorFlow waits for {named(down)}, which {'is' if len(down) == 1 else 'are'} down. " if down else ""
    return (
        f"{event.task} has finished its program, but has not exited {shown(event.seconds)} later. {waits}To let it "
        "exit whatever its workers do, call clusterkit.training.serve first in the program, or use --servers builtin."
    )


def _shrunk(event: ev.Shrunk) -> str:
    who = f"{named(event.tasks)} {'is' if len(event.tasks) == 1 else 'are'} given up"
    after = f" after {number_of('restart', event.restarts)}" if event.restarts else ""
    left = f"{len(event.left)} of {number_of('worker', event.workers)} (--min-workers {event.least})"
    step = "" if event.step is None else f" from the checkpoint of step {event.step}"
    return f"{who}{after}; the job continues with {left}{step}."

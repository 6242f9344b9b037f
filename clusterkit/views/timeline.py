"""Formats a run's events as lines of text with times, and has sentences about the events that the console omits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from clusterkit.text.durations import shown
from clusterkit.text.printable import at_words, printable
from clusterkit.views.naming import measured
from clusterkit.views.narrate import Level, sentence
from clusterkit.words import events as ev
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import RoleKind, signal_name


def timeline(events: Iterable[tuple[float, ev.Event]]) -> Iterator[tuple[float, str]]:
    """Yield the sentences about the more important events, each with the seconds since the run began."""
    began: float | None = None
    for at, event in events:
        began = at if began is None else began
        told = sentence(event)
        if told is not None and told[0] >= Level.INFO:
            yield at - began, told[1]


def timeline_text(lines: Iterable[tuple[float, str]], width: int | None = None) -> str:
    """Format the timeline as text, wrapped at words if a width is given."""
    return "".join(f"{at_words(f'  {seconds:>9.1f} s  {text}', width, ' ' * 15)}\n" for seconds, text in lines)


def any_sentence(event: ev.Event) -> str | None:
    """Return the sentence about an event, even one that the console does not show; None for events such as `Ticked`."""
    if (told := sentence(event)) is not None:
        return told[1]
    text = _DETAILS[type(event)].format(event) if type(event) in _DETAILS else _detail(event)
    return None if text is None else printable(text)


# The sentences about events that the console does not show. `{0}` is replaced by the event.
_DETAILS: Mapping[type[ev.Event], str] = {
    ev.Began: "The run begins.",
    ev.SpawnFailed: "{0.task} could not be started: {0.error} (attempt {0.attempt}).",
    ev.CheckpointFound: "{0.task} finds the checkpoint {0.path} (attempt {0.attempt}).",
    ev.Exited: "{0.task} {0.exit} (attempt {0.attempt}).",
    ev.Resumed: "{0.task} begins at step {0.step}.",
    ev.Ready: "{0.task} is ready.",
    ev.Reached: "{0.task} is {0.stage}.",
    ev.StepsUnreported: "{0.task} has trained for {0.seconds} s without a report of a step.",
    ev.Repaired: "{0.task} is patched: {0.repair}.",
    ev.AllocationEnding: "The allocation ends: {0.why}.",
    ev.FaultTook: "Fault {0.number} was injected.",
    ev.LifelineLost: "{0.who} is gone.",
    ev.TensorBoardLost: "TensorBoard is gone: {0.why}.",
    ev.DashboardLost: "The dashboard is gone: {0.why}.",
    ev.Impaired: "{0.what}",
    ev.Crashed: "clusterkit itself failed in {0.where}: {0.error}",
    ev.StorageFailed: "The run directory can't be written: {0.error}.",
}


def _detail(event: ev.Event) -> str | None:
    """Return the sentence about an event that needs more than a template in `_DETAILS`; None for other events."""
    match event:
        case ev.AttemptEnded():
            return _of_attempt(event)
        case ev.Swept():
            return _of_sweep(event)
        case ev.Drained(task, attempt, _, exception):
            last = f" Its last exception: {exception}" if exception else ""
            return f"The output of {task} is complete (attempt {attempt}).{last}"
        case ev.Progressed(task, _, step, metrics):
            return f"{task} reports step {step}{f': {told}' if (told := measured(metrics, len(metrics))) else ''}."
        case ev.StepsTimed(task, _, workers):
            return f"{task} timed the steps of its workers: {_of_times(workers)}."
        case ev.TrainsWith():
            return _of_training(event)
        case ev.PhaseReached(task, _, phase, number):
            return f"{task} reaches the phase {phase}{f' ({number} times)' if number > 1 else ''}."
        case ev.ProgramEnds(task, _, begun):
            return f"{task} {'has finished its program' if begun else 'continues its program'}."
        case ev.SigtermHandled(task, _, handled):
            return f"{task} {'handles' if handled else 'does not handle'} SIGTERM."
        case ev.Interrupted(signal):
            return f"clusterkit got {signal_name(signal)}."
        case ev.Finished(result):
            code = f"exit code {result.exit_code}"
            return f"The run {result.state} after {shown(result.duration)} ({code}): {result.reason}."
    return None


def _of_attempt(event: ev.AttemptEnded) -> str:
    how = "was left behind" if event.exit is None else str(event.exit)
    why = "" if event.fault is None else f", because of fault {event.fault}"
    if event.role is not None and event.role.kind is RoleKind.CAUSE:
        why += ", and is the cause"
    elif event.role is not None:
        same = event.role.kind is RoleKind.SAME
        why += f", {'as' if same else 'collateral of'} {event.role.task} (attempt {event.role.attempt}){' did' * same}"
    return f"{event.task} (attempt {event.attempt}) is over: it {how}{why}."


def _of_training(event: ev.TrainsWith) -> str:
    made = " and ".join(event.strategies) or "no strategy"
    joined = f"has joined a cluster of {number_of('task', event.cluster)}" if event.cluster else "has joined no cluster"
    how = "with others" if event.distributed else f"something ({event.training})"
    return f"{event.task} has made {made}, {joined}, and trains {how if event.training != 'none' else 'nothing yet'}."


def _of_times(workers: Mapping[Task, ev.StepTimes]) -> str:
    """Format times such as `worker:0 took 0.8 s for 12 steps, worker:1 took 1.5 s for 3 steps`."""
    told = [f"{task} took {shown(of.seconds)} for {number_of('step', of.count)}" for task, of in workers.items()]
    return ", ".join(told) or "none"


def _of_sweep(event: ev.Swept) -> str:
    if event.stuck:
        pids = ", ".join(map(str, event.stuck))
        what = f"{event.task} left processes behind that SIGKILL does not end: {pids}"
    elif event.left:
        processes, were = ("process", "was") if event.left == 1 else ("processes", "were")
        what = f"{event.task} left {event.left} {processes} behind, which {were} killed"
    else:
        what = f"Nothing of {event.task} is left"
    return f"{what} (attempt {event.attempt})."

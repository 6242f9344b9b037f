"""The timeline: the events of a run as lines of text, each with its time, and details of events without a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

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


def event_text(at: float, event: ev.Event, when: Callable[[float], str]) -> str | None:
    """Format any event as a line; None for events without a sentence, such as Ticked."""
    told = sentence(event)
    if told is not None:
        return f"{when(at)} {told[1]}"
    text = detail(event)
    return None if text is None else f"{when(at)} {printable(text)}"


def detail(event: ev.Event) -> str | None:
    """Return the sentence about an event that the console does not show; None if it has none, such as Ticked."""
    match event:
        case ev.Began():
            return "The run begins."
        case ev.SpawnFailed(task, attempt, error):
            return f"{task} could not be started: {error} (attempt {attempt})."
        case ev.CheckpointFound(task, attempt, path):
            return f"{task} finds the checkpoint {path} (attempt {attempt})."
        case ev.Exited(task, attempt, exit_):
            return f"{task} {exit_} (attempt {attempt})."
        case ev.AttemptEnded():
            return _of_attempt(event)
        case ev.Swept():
            return _of_sweep(event)
        case ev.Drained(task, attempt, _, exception):
            last = f" Its last exception: {exception}" if exception else ""
            return f"The output of {task} is complete (attempt {attempt}).{last}"
        case ev.Progressed(task, _, step, metrics):
            return f"{task} reports step {step}{f': {told}' if (told := measured(metrics, len(metrics))) else ''}."
        case ev.Resumed(task, _, step):
            return f"{task} begins at step {step}."
        case ev.Ready(task):
            return f"{task} is ready."
        case ev.Reached(task, _, stage):
            return f"{task} is {stage}."
        case ev.StepsTimed(task, _, workers):
            return f"{task} timed the steps of its workers: {_of_times(workers)}."
        case ev.TrainsWith():
            return _of_training(event)
        case ev.PhaseReached(task, _, phase, number):
            return f"{task} reaches the phase {phase}{f' ({number} times)' if number > 1 else ''}."
        case ev.StepsUnreported(task, _, seconds):
            return f"{task} has trained for {seconds} s without a report of a step."
        case ev.ProgramEnds(task, _, begun):
            return f"{task} {'has finished its program' if begun else 'continues its program'}."
        case ev.SigtermHandled(task, _, handled):
            return f"{task} {'handles' if handled else 'does not handle'} SIGTERM."
        case _:
            return _of_the_run(event)


def _of_the_run(event: ev.Event) -> str | None:
    match event:
        case ev.Interrupted(signal):
            return f"clusterkit got {signal_name(signal)}."
        case ev.AllocationEnding(why):
            return f"The allocation ends: {why}."
        case ev.FaultTook(number):
            return f"Fault {number} was injected."
        case ev.LifelineLost(who):
            return f"{who} is gone."
        case ev.TensorBoardLost(why):
            return f"TensorBoard is gone: {why}."
        case ev.DashboardLost(why):
            return f"The dashboard is gone: {why}."
        case ev.Impaired(what):
            return what
        case ev.Crashed(where, error):
            return f"clusterkit itself failed in {where}: {error}"
        case ev.StorageFailed(error):
            return f"The run directory can't be written: {error}."
        case ev.Finished(result):
            code = f"exit code {result.exit_code}"
            return f"The run {result.state} after {shown(result.duration)} ({code}): {result.reason}."
        case _:
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

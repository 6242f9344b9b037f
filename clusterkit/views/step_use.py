"""Compares the CPU time of tasks with the time per step, to show how the time of a step is spent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from clusterkit.store.usage import UsageSample
from clusterkit.text.printable import at_words
from clusterkit.views.goodput import USUAL
from clusterkit.views.naming import named
from clusterkit.words import events as ev
from clusterkit.words.account import Goodput
from clusterkit.words.model import Task, TaskType

LEAST = 4.0  # the minimum number of seconds of training that must be measured
FULL = 0.9  # if at least this share of the cores is in use, more processes find no free core
IDLE = 0.5  # cores; a worker that uses less than this has no running thread most of the time
LIKE = 0.1  # cores; workers that differ by no more than this number are described together


@dataclass(frozen=True, slots=True)
class StepUse:
    """How much of the machine the tasks used during training.

    | field | meaning |
    | --- | --- |
    | step | seconds of training per step, without repeated steps |
    | measured | the seconds of training during which the use was measured |
    | cores | the number of cores that the tasks may use; None if the number was not recorded |
    | used | the average number of cores that all tasks used together |
    | workers | the average number of cores that each worker used |
    | gpus | whether GPUs were in use |
    """

    step: float
    measured: float
    cores: int | None
    used: float
    workers: Mapping[Task, float]
    gpus: bool = False


def seconds_per_step(goodput: Goodput | None, events: Iterable[tuple[float, ev.Event]]) -> float | None:
    """Return the seconds of training per step, without repeated steps; None if unknown."""
    steps = [event.step for _, event in events if isinstance(event, ev.Progressed) and event.task.trains]
    made = max(steps) - steps[0] if steps else 0
    return goodput.parts.training / made if goodput is not None and goodput.parts.training > 0 and made else None


def step_use(
    goodput: Goodput | None, events: Sequence[tuple[float, ev.Event]], samples: Sequence[UsageSample]
) -> StepUse | None:
    """Return how much of the machine the tasks used during training; None if less than LEAST seconds were measured.

    An interval between two samples counts only if steps were completed in the interval, and if no task started, was
    paused or ended. Times are wall times.
    """
    step = seconds_per_step(goodput, events)
    training = {event.task for _, event in events if isinstance(event, ev.Spawned) and event.task.trains}
    if step is None or not training:
        return None
    steps = sorted(at for at, event in events if isinstance(event, ev.Progressed) and event.task.trains)
    changes = sorted(at for at, event in events if isinstance(event, ev.Spawned | ev.Exited | ev.Paused))

    def trains(since: float, until: float) -> bool:
        made = step > until - since or _between(steps, since, until)
        return steps[0] <= since < until <= steps[-1] and made and not _between(changes, since, until)

    spans = [
        (after.wall - before.wall, after)
        for before, after in pairwise(samples)
        if training <= after.tasks.keys() and trains(before.wall, after.wall)
    ]
    measured = sum(seconds for seconds, _ in spans)
    if measured < LEAST:
        return None
    used = {
        task: sum(seconds * sample.tasks.get(task, (0.0, 0))[0] for seconds, sample in spans) / measured / 100
        for task in spans[-1][1].tasks
    }
    workers = {task: cores for task, cores in used.items() if task.type is TaskType.WORKER}
    gpus = any(percent for _, sample in spans for percent, _ in sample.gpus.values())
    return StepUse(step, measured, spans[-1][1].cores, sum(used.values()), workers, gpus)


def step_lines(use: StepUse | None, width: int | None = None) -> list[str]:
    """Return lines about how much of the machine was used, to show below the goodput."""
    if use is None:
        return []
    return at_words("  " + " ".join(_sentences(use)), width or USUAL, "    ").split("\n")


def _between(times: Sequence[float], since: float, until: float) -> bool:
    """Return whether one of the sorted times is later than `since`, but not later than `until`."""
    return bisect_right(times, since) < bisect_right(times, until)


def _sentences(use: StepUse) -> Iterable[str]:
    milliseconds = 1000 * use.step
    yield f"A step was made every {milliseconds:.{0 if milliseconds >= 10 else 1}f} ms."
    if use.cores is not None:
        full = use.used >= FULL * use.cores
        cores = "one core" if use.cores == 1 else f"{use.cores} cores"
        more = ": more workers on this machine can't be faster" if full and not use.gpus else ""
        yield f"The tasks used {use.used:.1f} of this machine's {cores}{more}."
        if full:
            return
    if use.workers:
        yield _of_workers(use)


def _of_workers(use: StepUse) -> str:
    """Return how much of a core each worker used and, if no worker used much, what the workers may have waited for."""
    least, most = min(use.workers.values()), max(use.workers.values())
    if len(use.workers) == 1:
        text = f"The worker used {most:.0%} of a core"
    elif most - least <= LIKE:
        text = f"Each worker used {(least + most) / 2:.0%} of a core"
    else:
        told = [f"{task} {cores:.0%}" for task, cores in sorted(use.workers.items())]
        text = f"Of a core, {named(told)} was used"
    if most >= IDLE:
        return f"{text}."
    others = ["a GPU"] * use.gpus + ["other tasks"] * (len(use.workers) > 1)
    return f"{text}: most of a step is waiting, for {', '.join(['input', *others])} or other programs."

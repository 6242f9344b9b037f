"""Detects which task is persistently slower than its peers, as opposed to tasks that are only waiting for it.

The tasks are compared over several inspections. A task counts as slower if all inspections together show the
difference, and if they still show the difference when any one of them is left out. In addition, at most one inspection
may fail to show a part of the difference. Short disturbances are therefore ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.words.events import Pace, Slowness, StepTimes
from clusterkit.words.model import Task


class Threshold(NamedTuple):
    """The factor and the amount by which a task has to be slower than its peers to count as a straggler."""

    factor: float
    amount: float


THRESHOLDS = {  # in the order in which they are checked; an amount is a difference between shares of the time
    Slowness.STOPPED: Threshold(1.25, 0.2),
    Slowness.STARVED: Threshold(3.0, 0.3),
    Slowness.STEPS: Threshold(1.5, 0.0),
    Slowness.BUSY: Threshold(1.5, 0.3),
}
LEAST_STEPS = 3  # the minimum number of steps of a worker in a comparison
LEAST_CPU = 0.3  # CPU seconds per second, used or waited for; tasks with less are not compared
PARTIAL_SHARE = 0.5  # the share of the required difference with which a single inspection confirms the slowness
MOST_NAMED = 2  # the maximum number of peers that a text names; more peers are counted instead


@dataclass(frozen=True, slots=True)
class Observation:
    """An inspection: the tasks' paces, and the steps of a coordinator's workers since the previous inspection.

    When an attempt ends, its task is removed from `paces`.
    """

    at: float
    paces: dict[Task, Pace]
    steps: Mapping[Task, StepTimes]


@dataclass(frozen=True, slots=True)
class Peers:
    """The compared tasks. The `equal_workers` do the same work; in a `gang` they wait for each other at each step."""

    tasks: Collection[Task]
    equal_workers: Collection[Task]
    gang: bool


class Deviation(NamedTuple):
    """How a task differs from its peers: by what factor and amount, and the measurements as text."""

    slowness: Slowness
    factor: float
    amount: float
    why: str

    def is_slow(self, share: float = 1.0) -> bool:
        """Return whether the task is slower than its peers. A `share` below 1 lowers the required difference."""
        threshold = THRESHOLDS[self.slowness]
        return self.factor >= 1 + (threshold.factor - 1) * share and self.amount >= threshold.amount * share


@dataclass(slots=True)
class Comparison:
    """A measured figure for each task. `resolution` is the smallest measurable figure, which keeps factors finite."""

    slowness: Slowness
    values: Mapping[Task, float]
    resolution: float
    sorted_values: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.sorted_values = sorted(self.values.values())

    def finding(self, task: Task) -> Deviation | None:
        """Compare the task with the median of its peers; None if the task or its peers have too few samples."""
        if task not in self.values or len(self.values) < 2:
            return None
        own, median = self.values[task], self._median_of_peers(self.values[task])
        if self.slowness in (Slowness.STOPPED, Slowness.STARVED):  # the factor compares the time that is not lost
            factor = (1 - median) / max(1 - own, self.resolution)
        else:
            factor = own / max(median, self.resolution)
        why = f"{_TEXTS[self.slowness].format(_figure_text(self.slowness, own))} ({self._peers_text(task, median)})"
        return Deviation(self.slowness, factor, own - median, why)

    def _median_of_peers(self, own: float) -> float:
        """Return the median of the peers' figures; `own` is the figure of the task itself.

        Of two figures in the middle, return the one that leads to fewer reports. For stops by signals, which are never
        normal, return the one that leads to more reports.
        """
        count = len(self.sorted_values) - 1
        middle = (count - 1) // 2 if self.slowness is Slowness.STOPPED else count // 2
        return self.sorted_values[middle + (middle >= self.sorted_values.index(own))]

    def _peers_text(self, task: Task, median: float) -> str:
        """Format the peers and their median: `worker:0 3 %`, `worker:0 and worker:2 4 %`, `the 7 others 4 %`."""
        others = len(self.values) - 1
        names = sorted(one for one in self.values if one != task) if others <= MOST_NAMED else []
        return f"{' and '.join(map(str, names)) or f'the {others} others'} {_figure_text(self.slowness, median)}"


def slow_tasks(observations: Sequence[Observation], peers: Peers) -> dict[Task, Deviation]:
    """Return the tasks that are slower than their peers, each with the first reason that applies."""
    found: dict[Task, Deviation] = {}
    for slowness in THRESHOLDS:
        suspects = _slow_by(observations, peers, slowness)
        for index in range(len(observations)) if suspects.keys() - found.keys() else ():
            confirmed = _slow_by([*observations[:index], *observations[index + 1 :]], peers, slowness)
            suspects = {task: finding for task, finding in suspects.items() if task in confirmed}
        suspects = {task: of for task, of in suspects.items() if _is_persistent(observations, task, peers, slowness)}
        found = {**suspects, **found}
    return found


def shows_slow_task(observation: Observation, peers: Peers) -> bool:
    """Return whether a single inspection shows a task that is slower than its peers."""
    return any(_slow_by([observation], peers, slowness) for slowness in THRESHOLDS)


def _is_persistent(observations: Sequence[Observation], task: Task, peers: Peers, slowness: Slowness) -> bool:
    """Return whether at most one inspection contradicts the difference. Ignore inspections with too few samples."""
    findings = (compare([observation], peers, slowness).finding(task) for observation in observations)
    return sum(found is not None and not found.is_slow(PARTIAL_SHARE) for found in findings) <= 1


def compare(observations: Sequence[Observation], peers: Peers, slowness: Slowness) -> Comparison:
    """Compare all tasks that have enough samples, over all inspections together."""
    return _MEASURES[slowness](observations, peers)


def _slow_by(observations: Sequence[Observation], peers: Peers, slowness: Slowness) -> dict[Task, Deviation]:
    figures = compare(observations, peers, slowness)
    if not figures.sorted_values or figures.sorted_values[-1] - figures.sorted_values[0] < THRESHOLDS[slowness].amount:
        return {}
    findings = {task: figures.finding(task) for task in figures.values}
    return {task: finding for task, finding in findings.items() if finding is not None and finding.is_slow()}


def _stopped(observations: Sequence[Observation], peers: Peers) -> Comparison:
    """Compare how much of the time each task is stopped by signals."""
    paces = _paces(observations, peers.tasks)
    shares = {task: pace.stopped / pace.samples for task, pace in paces.items()}
    return Comparison(Slowness.STOPPED, shares, _resolution(paces))


def _starved(observations: Sequence[Observation], peers: Peers) -> Comparison:
    """Compare how much of its runnable time each task spends waiting for a CPU."""
    paces = _paces(observations, peers.equal_workers)
    wanted = {task: pace.cpu + pace.delayed for task, pace in paces.items()}
    shares = {
        task: pace.delayed / wanted[task]
        for task, pace in paces.items()
        if wanted[task] > 0 and wanted[task] >= LEAST_CPU * pace.seconds
    }
    return Comparison(Slowness.STARVED, shares, 1e-3)


def _busy(observations: Sequence[Observation], peers: Peers) -> Comparison:
    """Compare how much of the time each task of a gang spends on anything but waiting for its peers."""
    paces = _paces(observations, peers.equal_workers) if peers.gang else {}
    shares = {task: (pace.busy + pace.stopped) / pace.samples for task, pace in paces.items()}
    return Comparison(Slowness.BUSY, shares, _resolution(paces))


def _steps(observations: Sequence[Observation], peers: Peers) -> Comparison:
    """Compare each worker's mean time per coordinator step."""
    count, seconds = dict.fromkeys(peers.equal_workers, 0), dict.fromkeys(peers.equal_workers, 0.0)
    for task, times in (
        (task, times) for observation in observations for task, times in observation.steps.items() if task in count
    ):
        count[task] += times.count
        seconds[task] += times.seconds
    means = {task: seconds[task] / number for task, number in count.items() if number >= LEAST_STEPS}
    return Comparison(Slowness.STEPS, means, 1e-6)


_MEASURES: Mapping[Slowness, Callable[[Sequence[Observation], Peers], Comparison]] = {
    Slowness.STOPPED: _stopped,
    Slowness.STARVED: _starved,
    Slowness.STEPS: _steps,
    Slowness.BUSY: _busy,
}
_TEXTS = {
    Slowness.STOPPED: "is stopped {} of the time",
    Slowness.STARVED: "waits for a CPU {} of the time that it could run",
    Slowness.STEPS: "takes {} for a step",
    Slowness.BUSY: "works {} of the time",
}


def _paces(observations: Sequence[Observation], tasks: Collection[Task]) -> dict[Task, Pace]:
    """Return the combined paces of the tasks that were seen in every inspection."""
    found = {}
    for task in tasks:
        seen = [observation.paces[task] for observation in observations if task in observation.paces]
        if len(seen) == len(observations) and all(pace.samples for pace in seen):
            found[task] = _sum(seen)
    return found


def _sum(paces: Sequence[Pace]) -> Pace:
    return Pace(
        sum(pace.samples for pace in paces),
        sum(pace.stopped for pace in paces),
        sum(pace.busy for pace in paces),
        sum(pace.seconds for pace in paces),
        sum(pace.cpu for pace in paces),
        sum(pace.delayed for pace in paces),
    )


def _resolution(paces: Mapping[Task, Pace]) -> float:
    """Return the smallest share that can be measured with the least number of samples."""
    return 1 / min((pace.samples for pace in paces.values()), default=1)


def _figure_text(slowness: Slowness, figure: float) -> str:
    if slowness is not Slowness.STEPS:
        return f"{100 * figure:.0f} %"
    return f"{figure:.1f} s" if figure >= 1 else f"{1000 * figure:.0f} ms"

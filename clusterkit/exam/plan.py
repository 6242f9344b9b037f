"""The plan of an exam: which experiments serve which cells, in which order, and after which step their runs end.

An experiment is a run, or several, that serve one or more cells: a killed leader that continues shows both whether it
resumes where it was and whether the job survives. The order is breadth first: an experiment of each chapter, then the
next of each, so that an exam with little time has seen something of every chapter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from clusterkit.chaos.model import Baseline
from clusterkit.exam.breaking import Interruption
from clusterkit.exam.model import Cell, Chapter
from clusterkit.exam.pace import StepPace, recorded_end
from clusterkit.exam.runs import workers_of
from clusterkit.exam.survival import (
    EXPORT,
    POWER,
    SurvivalCell,
    lasting_seconds,
    middle_step,
    other_step,
    survival_cell,
)
from clusterkit.words.faults import FaultAction, Phase
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, number_of

REPEAT = Cell(Chapter.REPEAT, "unbroken")
KILLED = Cell(Chapter.RESUME, "killed-between-checkpoints")
KILLED_LATER = Cell(Chapter.RESUME, "killed-in-the-second-fit")
STOPPED = Cell(Chapter.RESUME, "stopped-between-checkpoints")
STOPPED_LATER = Cell(Chapter.RESUME, "stopped-after-a-checkpoint")

# In a quick exam, the leader is killed in each of these phases that it reaches, and one other task of each kind in a
# step.
_QUICK = (
    *(Phase.SAVING_RENAME, Phase.SAVED, Phase.STARTING, Phase.SAVING_WRITE, "step"),
    *(Phase.RESTORING, Phase.ENDING, Phase.EVALUATING, Phase.EXPORTING),
)
# Phases before the first step, and phases that the first save reaches. After a fault in another phase, a run goes to
# its own end.
_BEFORE_STEPS = (Phase.IMPORTING, Phase.STARTING)
_IN_A_SAVE = (Phase.SAVING_OPEN, Phase.SAVING_WRITE, Phase.SAVING_SYNC, Phase.SAVING_RENAME, Phase.SAVED)
_PASSING = (FaultAction.KILL, FaultAction.TERM, FaultAction.STOP)  # faults after which the task continues as before


@dataclass(frozen=True, slots=True)
class Reading:
    """What is judged by the recording of an unbroken run, without a run of its own."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """The unbroken run, a second time."""


@dataclass(frozen=True, slots=True)
class WorkerComparison:
    """One worker and `workers` workers."""

    workers: int


@dataclass(frozen=True, slots=True)
class StopAndResume:
    """A run that is stopped, and continued; or one whose leader is killed, and which restarts by itself.

    `workers` is the number of workers of the continued run; None stands for the same number.
    """

    interruption: Interruption
    workers: int | None = None

    @property
    def stopped(self) -> str:
        """The name of the run that is stopped, from which several runs can continue."""
        return f"{'killed' if self.interruption.fault else 'stopped'}-after-step-{self.interruption.step}"


@dataclass(frozen=True, slots=True)
class Experiment:
    """Runs that serve one or more cells.

    `last` is the step after which the last of its runs is ended; None stands for the program's own end. `seconds`
    is an estimate of how long the runs take.
    """

    cells: tuple[Cell, ...]
    subject: Reading | Repetition | WorkerComparison | StopAndResume | SurvivalCell
    last: int | None = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """The name of the experiment's main run."""
        return self.cells[0].name.replace("/", "-").replace(":", "-")

    @property
    def first_run(self) -> str:
        """The name of a run that another experiment may need as well; "" if there is none."""
        return self.subject.stopped if isinstance(self.subject, StopAndResume) else ""


def comparisons(sizes: Sequence[int], pace: StepPace, last: int) -> list[Experiment]:
    """Return the experiments of the chapter on equality: one worker against each of these numbers of workers."""
    return [
        Experiment((Cell(Chapter.EQUALITY, f"1-against-{size}"),), WorkerComparison(size), seconds=pace.seconds(last))
        for size in sizes
        if size > 1
    ]


def resumptions(
    job: JobSpec,
    baseline: Baseline,
    recorded: Collection[int],
    pace: StepPace,
    is_exact: bool,
    early: bool = False,
) -> list[Experiment]:
    """Return the experiments of the chapter on resuming.

    The first is also the experiment on survival with a killed leader; it goes to the end of training. The others are
    ended early, unless `is_exact` is False, since only the end of such jobs can be compared. With `early`, training is
    interrupted after the first checkpoint instead of in the middle of training.
    """
    middle, leader, last = middle_step(baseline, early), job.leader, baseline.last_step or 0
    if middle is None:
        return []
    killed = survival_cell(job, baseline, FaultAction.KILL, leader, "step", early)
    again = lost_steps(baseline, middle)
    found = [Experiment((KILLED, killed.cell), killed, seconds=pace.seconds(last + again, 2))]
    end = recorded_end(middle, recorded, last, pace) if is_exact else None
    cost = pace.seconds(middle, 1) + pace.seconds((end or last) - middle + again, 1)
    found.append(Experiment((STOPPED,), StopAndResume(Interruption(leader, middle)), end, cost))
    saved = other_step(baseline, middle)
    if saved is not None:
        end = recorded_end(saved, recorded, last, pace) if is_exact else None
        cost = pace.seconds(saved, 1) + pace.seconds((end or last) - saved + 1, 1)
        found.append(Experiment((STOPPED_LATER,), StopAndResume(Interruption(leader, saved)), end, cost))
    workers = workers_of(job)
    if workers:
        others = workers - 1 or 2
        cell = Cell(Chapter.RESUME, f"continued-by-{number_of('worker', others).replace(' ', '-')}")
        cost = pace.seconds(last - middle + again, 1)  # the run that is stopped is that of STOPPED
        found.append(Experiment((cell,), StopAndResume(Interruption(leader, middle), others), seconds=cost))
    return found


def second_fit_killed(job: JobSpec, step: int, pace: StepPace) -> Experiment:
    """Return the experiment in which the leader is killed at a step of the second `fit` that saves backups."""
    kill = Interruption(job.leader, step, f"{FaultAction.KILL} {job.leader}")
    return Experiment((KILLED_LATER,), StopAndResume(kill), seconds=pace.seconds(step, 2))


def breaks(
    cells: Sequence[SurvivalCell], baseline: Baseline, recorded: Collection[int], pace: StepPace, is_exact: bool
) -> Iterator[Experiment]:
    """Yield the experiments of the chapter on survival, one for each cell."""
    last = baseline.last_step or 0
    for one in cells:
        point = shown_after(one, baseline)
        end = None
        if point is not None and is_exact:
            end = recorded_end(point, recorded, last, pace)
        attempts = 1 + len(one.breaks) + bool(one.fault)
        steps = (end or last) + lost_steps(baseline, point or 0)
        yield Experiment((one.cell,), one, end, pace.seconds(steps, attempts) + lasting_seconds(one))


def readings(renames: bool, exports: bool) -> list[Experiment]:
    """Return the experiments that take no run, given whether the program renames files and whether it exports."""
    cells = ([POWER] if renames else []) + ([EXPORT] if exports else [])
    return [Experiment((cell,), Reading()) for cell in cells]


def shown_after(one: SurvivalCell, baseline: Baseline) -> int | None:
    """Return the step with which a cell has shown all but what follows after any fault; None for the last step."""
    if one.action not in _PASSING:
        return None
    first_saved = min((step for step in baseline.checkpoints if step > 0), default=None)
    if one.phase in _BEFORE_STEPS:
        return first_saved or 1
    if one.phase in _IN_A_SAVE:
        return first_saved
    return one.breaks[0].step if one.phase in ("step", Phase.RESTORING) and one.breaks else None


def lost_steps(baseline: Baseline, step: int) -> int:
    """Return how many steps are computed again if a task dies after this step."""
    return step - max((saved for saved in baseline.checkpoints if saved <= step), default=0)


def quick_cells(
    cells: Sequence[SurvivalCell], leader: Task, reached: Callable[[Task], Collection[str]], saves: bool
) -> list[SurvivalCell]:
    """Return the cells of a quick exam: a kill in each phase that the program has, most informative first.

    `reached` returns the phases that a task has reached in an unbroken run, and `saves` says whether the program saves
    checkpoints.
    """
    chosen = []
    for phase in _QUICK:
        for one in cells:
            if one.action is not FaultAction.KILL or one.phase != phase or (one.task != leader and phase != "step"):
                continue
            has_phase = saves if phase == Phase.RESTORING else phase in reached(one.task)
            if phase == "step" or has_phase:
                chosen.append(one)
    return chosen


def breadth_first(*chapters: Sequence[Experiment]) -> list[Experiment]:
    """Return the first experiment of each chapter, then the second of each, and so on.

    A cell that an earlier experiment serves is left out of later ones.
    """
    ordered, served = list[Experiment](), set[Cell]()
    queues = [deque(chapter) for chapter in chapters]
    while any(queues):
        for queue in queues:
            one = _next_unserved(queue, served)
            if one is not None:
                ordered.append(one)
                served.update(one.cells)
    return ordered


def _next_unserved(queue: deque[Experiment], served: Collection[Cell]) -> Experiment | None:
    """Take the first experiment from a queue that has a cell which is not served yet; return it with these cells."""
    while queue:
        one = queue.popleft()
        cells = tuple(cell for cell in one.cells if cell not in served)
        if cells:
            return replace(one, cells=cells)
    return None


def wanted(experiments: Sequence[Experiment], is_chosen: Callable[[Cell], bool]) -> list[Experiment]:
    """Return the experiments with a chosen cell, and with their chosen cells alone."""
    found = []
    for one in experiments:
        cells = tuple(cell for cell in one.cells if is_chosen(cell))
        if cells:
            found.append(replace(one, cells=cells))
    return found

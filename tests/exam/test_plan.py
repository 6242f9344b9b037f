"""Which experiments serve which cells, in which order, and after which step their runs end."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from clusterkit.chaos.model import Baseline
from clusterkit.exam.model import Cell, Chapter
from clusterkit.exam.pace import StepPace
from clusterkit.exam.plan import (
    Experiment,
    Reading,
    StopAndResume,
    breadth_first,
    breaks,
    comparisons,
    lost_steps,
    quick_cells,
    readings,
    resumptions,
    wanted,
)
from clusterkit.exam.survival import SurvivalCell, survival_cells
from clusterkit.words.faults import Phase
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskType

GANG = JobSpec(Program(ProgramKind.SCRIPT, "train.py"), {TaskType.WORKER: 2})
PS = JobSpec(Program(ProgramKind.SCRIPT, "train.py"), {TaskType.CHIEF: 1, TaskType.WORKER: 2, TaskType.PS: 1})
BASELINE = Baseline(6.0, 320, (64, 128, 192, 256, 320), {"loss": 0.5})
RECORDED = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 64, 128, 192, 256, 320)
PACE = StepPace(startup=2.0, step=0.01)
LEADER = Task(TaskType.WORKER, 0)
SAVES = {Phase.STARTING, Phase.SAVING_RENAME, Phase.SAVED, Phase.ENDING}


def a_cell(name: str) -> Cell:
    """A cell with this name, as an exam prints it."""
    chapter, _, rest = name.partition("/")
    return Cell(Chapter(chapter), rest)


def an_experiment(*names: str) -> Experiment:
    """An experiment that serves these cells."""
    return Experiment(tuple(map(a_cell, names)), Reading())


def planned(is_exact: bool = True) -> list[Experiment]:
    """The whole plan of a gang of two workers."""
    cells = survival_cells(GANG, BASELINE, disk=False)
    return breadth_first(
        readings(renames=True, exports=False),
        comparisons([2], PACE, 320),
        resumptions(GANG, BASELINE, RECORDED, PACE, is_exact),
        list(breaks(cells, BASELINE, RECORDED, PACE, is_exact)),
    )


def test_an_experiment_of_each_chapter_comes_before_the_next_of_each() -> None:
    """So that a short exam has seen something of every chapter."""
    chapters = [cell.chapter for one in planned()[:8] for cell in one.cells]
    assert (
        chapters
        == [
            Chapter.SURVIVAL,  # the recording of the unbroken run, which costs nothing
            Chapter.EQUALITY,
            *(Chapter.RESUME, Chapter.SURVIVAL),  # the killed leader serves both
            Chapter.SURVIVAL,
            *(Chapter.RESUME, Chapter.SURVIVAL) * 2,
        ][: len(chapters)]
    )


def test_a_killed_leader_shows_that_it_resumes_and_that_the_job_survives() -> None:
    """So the run is made once."""
    names = [str(cell) for one in planned() for cell in one.cells]
    assert len(set(names)) == len(names)
    (killed,) = (one for one in planned() if a_cell("resume/killed-between-checkpoints") in one.cells)
    assert killed.cells[1] == a_cell("survival/kill/worker:0/step")
    assert killed.last is None  # how a continued job ends is seen once


def test_the_run_that_is_stopped_serves_each_that_continues_it() -> None:
    """The same number of workers, and another one."""
    stops = {one.cells[0].name: one.subject for one in planned() if isinstance(one.subject, StopAndResume)}
    same, other = stops["stopped-between-checkpoints"], stops["continued-by-1-worker"]
    assert same.stopped == other.stopped == "stopped-after-step-160"
    assert (same.workers, other.workers) == (None, 1)
    assert stops["stopped-after-a-checkpoint"].stopped != same.stopped


def test_a_cell_is_served_once_and_no_chapter_waits_for_a_longer_one() -> None:
    """Also if the chapters are of unequal length, or a cell of one is served by another's experiment."""
    both = an_experiment("resume/a", "survival/c")
    ordered = breadth_first(
        [an_experiment("equality/1")],
        [both, an_experiment("resume/b")],
        [an_experiment("survival/c"), an_experiment("survival/d"), an_experiment("survival/e")],
        [],
    )
    names = [[str(cell) for cell in one.cells] for one in ordered]
    assert names == [["equality/1"], ["resume/a", "survival/c"], ["survival/d"], ["resume/b"], ["survival/e"]]


def test_chosen_cells_alone_are_examined() -> None:
    """Of an experiment that serves two, the one that is chosen."""
    chosen = {a_cell("survival/kill/worker:0/step"), a_cell("equality/1-against-2")}
    found = wanted(planned(), lambda cell: cell in chosen)
    assert [one.cells for one in found] == [
        (a_cell("equality/1-against-2"),),
        (a_cell("survival/kill/worker:0/step"),),
    ]


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("resume/stopped-between-checkpoints", 192),  # stopped after step 160
        ("resume/stopped-after-a-checkpoint", 256),  # stopped after step 193
        ("resume/continued-by-1-worker", None),  # compared by its last step and its final metric
        ("survival/kill/worker:0/importing", 89),  # the first checkpoint is that of step 64
        ("survival/kill/worker:0/starting", 89),
        ("survival/term/worker:0/saving-rename", 89),
        ("survival/stop/worker:0/saved", 89),
        ("survival/kill/worker:1/step", 192),
        ("survival/kill/worker:0/restoring", 192),
        ("survival/kill/worker:0/evaluating", None),
        ("survival/kill/worker:0/last-step", None),
        ("survival/kill/worker:0/ending", None),
        ("survival/memory/worker:1/step", None),
    ],
)
def test_a_run_ends_when_all_that_is_compared_has_been_seen(name: str, last: int | None) -> None:
    """At a step whose state the unbroken run has recorded."""
    (one,) = (one for one in planned() if a_cell(name) in one.cells)
    assert one.last == last
    assert last in (None, *RECORDED)


def test_jobs_that_only_their_end_can_be_compared_of_run_to_their_end() -> None:
    """Parameter servers take updates as they come."""
    assert {one.last for one in planned(is_exact=False)} == {None}


def reached_by(*phases: Phase) -> dict[Task, Collection[str]]:
    """What the leader and worker:1 reach."""
    return {LEADER: {*SAVES, *phases}, Task(TaskType.WORKER, 1): {Phase.STARTING, Phase.ENDING}}


@pytest.mark.parametrize(
    ("phases", "saves", "names"),
    [
        ((), False, ["saving-rename", "saved", "starting", "step", "worker:1/step", "ending"]),
        ((), True, ["saving-rename", "saved", "starting", "step", "worker:1/step", "restoring", "ending"]),
        (
            (Phase.SAVING_WRITE, Phase.EXPORTING, Phase.SAVING_OPEN),
            True,
            [
                *("saving-rename", "saved", "starting", "saving-write", "step", "worker:1/step"),
                *("restoring", "ending", "exporting"),
            ],
        ),
    ],
)
def test_a_quick_exam_has_the_phases_that_the_program_has(
    phases: tuple[Phase, ...], saves: bool, names: list[str]
) -> None:
    """One kill in each, and one of another worker."""
    reached = reached_by(*phases)
    found = quick_cells(survival_cells(GANG, BASELINE, disk=True), LEADER, reached.__getitem__, saves)
    assert [one.cell.name.removeprefix("kill/").removeprefix("worker:0/") for one in found] == names


def test_a_quick_exam_kills_a_server_too() -> None:
    """In a step, which is all that is known of it."""
    found = quick_cells(survival_cells(PS, BASELINE, disk=False), PS.leader, lambda task: (), saves=False)
    assert [one.cell.name for one in found] == ["kill/chief:0/step", "kill/worker:1/step", "kill/ps:0/step"]


def test_estimates_count_what_is_computed_again_and_how_long_faults_last() -> None:
    """A frozen task costs its pause, a killed one an attempt and the steps since the last checkpoint."""
    costs = {one.cells[0].name: one.seconds for one in planned() if isinstance(one.subject, SurvivalCell)}
    assert lost_steps(BASELINE, 160) == 32
    assert costs["kill/worker:1/step"] == pytest.approx(1.0 + 2 * 2.0 + (192 + 32) * 0.01)
    assert costs["stop/worker:1/step"] == pytest.approx(costs["kill/worker:1/step"] + 15)


def test_a_program_with_one_step_has_nothing_to_resume() -> None:
    """It can't be stopped between two."""
    assert resumptions(GANG, Baseline(1.0, 1), (0, 1), PACE, is_exact=True) == []

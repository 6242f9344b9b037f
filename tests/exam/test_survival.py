"""Which faults are injected when, and what must hold after them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.chaos.model import Baseline
from clusterkit.exam.recording import Recording
from clusterkit.exam.survival import (
    PHASES,
    middle_step,
    old_checkpoint_findings,
    other_step,
    recovery_remedy,
    survival_cells,
    survival_findings,
    torn_export_findings,
    torn_file,
)
from clusterkit.words.account import Recovery
from clusterkit.words.faults import FaultAction
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Program, ProgramKind, Task, TaskType
from clusterkit.words.outcome import Exit, Failure, RunResult, RunState
from clusterkit.words.reports import Checkpointed

PROGRAM = Program(ProgramKind.SCRIPT, "train.py")
PS = JobSpec(PROGRAM, {TaskType.CHIEF: 1, TaskType.WORKER: 2, TaskType.PS: 1})
GANG = JobSpec(PROGRAM, {TaskType.WORKER: 3})
ALONE = JobSpec(PROGRAM, {TaskType.WORKER: 1})
BASELINE = Baseline(10.0, 100, (20, 40, 60, 80, 100), {"loss": 0.5})
TASK = Task(TaskType.WORKER, 0)
SUCCEEDED = RunResult(RunState.SUCCEEDED, 0, "")


@pytest.mark.parametrize(
    ("last", "saved", "middle"),
    [
        (100, (20, 40, 60, 80, 100), 50),
        (100, (), 50),
        (100, (100,), 50),
        (24, (8, 16, 24), 12),
        (10, (1,), 5),
        (10, (9,), 9),
        (2, (), 1),
        (1, (), None),
        (None, (), None),
    ],
)
def test_the_middle_is_between_two_checkpoints(last: int | None, saved: tuple[int, ...], middle: int | None) -> None:
    """So that something has to be computed again."""
    assert middle_step(Baseline(1.0, last, saved)) == middle


@pytest.mark.parametrize(
    ("last", "saved", "middle"),
    [
        (320, (64, 128, 192, 256, 320), 96),
        (320, (), 160),
        (100, (2, 4, 6, 8, 10, 12), 9),  # not after two steps
        (7, (2, 4, 6), 5),
        (10, (9,), 9),
        (1, (), None),
    ],
)
def test_an_early_interruption_is_between_the_first_checkpoints(
    last: int, saved: tuple[int, ...], middle: int | None
) -> None:
    """After some steps, so that something can be lost."""
    assert middle_step(Baseline(1.0, last, saved), early=True) == middle


@pytest.mark.parametrize(
    ("saved", "middle", "other"),
    [
        ((20, 40, 60, 80), 50, 61),
        ((8, 16), 12, 17),
        ((10,), 50, 11),
        ((90,), 50, 91),
        ((99,), 50, None),
        ((), 50, None),
    ],
)
def test_two_checkpoints_are_tried_where_there_are_two(saved: tuple[int, ...], middle: int, other: int | None) -> None:
    """One may happen to be where nothing can be forgotten."""
    assert other_step(Baseline(1.0, 100, saved), middle) == other


def test_tasks_are_cut_off_where_the_network_is_virtual() -> None:
    """For longer than a heartbeat may be missing, in a step; servers make no other phase known."""
    job = replace(PS, network=Network.VIRTUAL)
    names = [one.cell.name for one in survival_cells(job, BASELINE, disk=False)]
    assert [name for name in names if name.startswith("partition/")] == [
        *(f"partition/chief:0/{phase}" for phase in ("starting", "step", "saving-rename")),
        "partition/worker:1/step",
        "partition/ps:0/step",
    ]
    assert not [one for one in survival_cells(PS, BASELINE, disk=False) if one.cell.name.startswith("partition")]
    assert not [
        one
        for one in survival_cells(replace(ALONE, network=Network.VIRTUAL), BASELINE, False)
        if "part" in str(one.cell)
    ]


@pytest.mark.parametrize(
    ("job", "victims"),
    [(PS, {"chief:0", "worker:1", "ps:0"}), (GANG, {"worker:0", "worker:2"}), (ALONE, {"worker:0"})],
)
def test_a_task_of_each_kind_is_hit_by_each_fault_in_each_phase(job: JobSpec, victims: set[str]) -> None:
    """And each cell has a name of its own."""
    cells = survival_cells(job, BASELINE, disk=False)
    names = [one.cell.name for one in cells]
    assert len(set(names)) == len(names)
    assert {name.split("/")[1] for name in names} == victims
    leader = str(job.leader)
    for action in (FaultAction.KILL, FaultAction.TERM, FaultAction.STOP):
        assert [name for name in names if name.startswith(f"{action}/{leader}/")] == [
            f"{action}/{leader}/{phase}" for phase in PHASES
        ]


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("kill/worker:0/importing", ("kill worker:0 @ phase=importing",)),
        ("kill/worker:2/step", ("worker:2 50: kill worker:2",)),
        ("term/worker:0/last-step", ("worker:0 100: term worker:0",)),
        ("stop/worker:2/saving-rename", ("stop worker:2 for=4s @ phase=saving-rename",)),
        ("stop/worker:2/step", ("worker:2 50: stop worker:2 for=15s",)),
        ("kill/worker:2/restoring", ("worker:0 50: kill worker:0", "kill worker:2 @ phase=restoring")),
        ("memory/worker:2/step", ("worker:2 50: memory worker:2 for=15s",)),
        ("disk-full/worker:0/saving-open", ("disk-full for=3s @ phase=saving-open",)),
    ],
)
def test_the_faults_of_a_cell(name: str, faults: tuple[str, ...]) -> None:
    """Each at a step or phase of a task, in the grammar of --fault."""
    (cell,) = (one for one in survival_cells(GANG, BASELINE, disk=True) if one.cell.name == name)
    held = [f"{one.task} {one.step}: {one.fault}" for one in cell.breaks]
    assert (*held, *([cell.fault] if cell.fault else [])) == faults
    assert not cell.fault or str(parse_fault(cell.fault)) == cell.fault


def test_a_program_without_steps_or_checkpoints_has_fewer_cells() -> None:
    """There is no step to be killed at, and no checkpoint whose disk could be full."""
    names = [one.cell.name for one in survival_cells(GANG, Baseline(3.0), disk=True)]
    assert not [name for name in names if name.endswith(("/step", "/last-step", "/restoring"))]
    assert not [name for name in names if name.startswith("disk-full")]


@pytest.mark.parametrize(
    ("result", "said", "anew", "differing", "codes"),
    [
        (SUCCEEDED, (), False, "", []),
        (None, (), False, "", ["not-recovered"]),
        (RunResult(RunState.FAILED, 1, "exited with code 1"), ("The job failed.",), False, "x", ["not-recovered"]),
        (SUCCEEDED, ("worker:0 (attempt 2) began at step 0 although …",), True, "", ["began-anew"]),
        (SUCCEEDED, ("The final loss is 2; without faults it ends at step 0.",), False, "kernel", ["result-differs"]),
        (SUCCEEDED, (), False, "kernel", ["result-differs"]),
    ],
)
def test_what_did_not_hold(
    result: RunResult | None, said: tuple[str, ...], anew: bool, differing: str, codes: list[str]
) -> None:
    """A job that failed, began anew, or ended with something else."""
    assert [finding.code for finding in survival_findings(result, said, anew, differing)] == codes


@pytest.mark.parametrize(
    ("phase", "files", "renamed", "read", "torn"),
    [
        ("saving-write", {"/c/state"}, {}, {"/c/state"}, ("/c/state", 2)),
        ("saving-open", {"/c/state"}, {}, {"/c/state"}, ("/c/state", 2)),
        ("saving-write", {"/c/state.new"}, {}, set(), None),  # killed before the rename, and nothing older is there
        ("saving-write", {"/c/state.new", "/c/state"}, {"/c/state": True}, {"/c/state"}, None),
        ("step", {"/c/state"}, {}, {"/c/state"}, None),
    ],
)
def test_a_file_that_was_being_written_and_is_read_by_that_name(
    phase: str, files: set[str], renamed: dict[str, bool], read: set[str], torn: tuple[str, int] | None
) -> None:
    """Where files are renamed, the next attempt reads another name."""
    (cell,) = (one for one in survival_cells(GANG, BASELINE, False) if one.cell.name == f"kill/worker:0/{phase}")
    attempts = {
        (TASK, 1): Recording(TASK, 1, files=files, renamed=renamed),
        (TASK, 2): Recording(TASK, 2, read=read),
    }
    assert torn_file(cell, attempts) == torn


@pytest.mark.parametrize(
    ("result", "last", "remedy"),
    [
        (replace(SUCCEEDED, last_step=60), 60, "Restore the newest checkpoint before the first step"),
        (replace(SUCCEEDED, last_step=90), 60, "Train the steps that are left"),
        (SUCCEEDED, None, "Restore the newest"),
        (RunResult(RunState.FAILED, 1, "no"), 60, ""),
        (None, 60, ""),
    ],
)
def test_what_mends_a_recovery_to_something_else(result: RunResult | None, last: int | None, remedy: str) -> None:
    """By where it ended; the first sentence has the remedy, and one about what was left behind has none."""
    found = recovery_remedy(result, last)
    assert found.startswith(remedy)
    assert bool(found) == bool(remedy)
    texts = [one.remedy for one in survival_findings(SUCCEEDED, ("The loss is 3.", "A process was left."), remedy="R")]
    assert texts == ["R", ""]


def test_a_torn_file_and_the_exception_are_named() -> None:
    """With what to do, in place of what is known of the exception."""
    tail = ("Traceback (most recent call last):", '  File "/train.py", line 9, in <module>', "EOFError: No data left")
    cause = Failure(TASK, 2, Exit(code=1), 1.0, tail, "EOFError: No data left")
    failed = RunResult(RunState.FAILED, 1, "worker:0 exited with code 1", cause=cause)
    (found,) = survival_findings(failed, (), torn=("/c/state", 2))
    assert found.text == (
        "The job did not recover: worker:0 exited with code 1; EOFError: No data left. The fault came while /c/state "
        "was written, and attempt 2 read that file."
    )
    assert "os.replace(new, path)" in found.remedy
    anew, other = survival_findings(SUCCEEDED, ("It began at step 0.", "The loss is 3."), True, torn=("/c/state", 2))
    assert (anew.code, "/c/state" in anew.text, bool(anew.remedy)) == ("began-anew", True, True)
    assert (other.text, other.remedy) == ("The loss is 3.", "")


@pytest.mark.parametrize(
    ("saved", "last", "lost", "found"),
    [
        ((4, 8, 12, 16, 20), 22, 18, ["It continued at step 4 from an old checkpoint: those of step 8 to 20 had"]),
        ((4, 8, 12, 16, 20), 22, 6, []),  # the newest was not complete
        ((4, 8, 12, 16, 20), 40, 24, []),  # another worker was ahead
        ((4, 8, 12, 16, 20), 22, None, []),
        ((4, 8, 12, 16, 20), None, 18, []),
        ((), 40, 40, []),
        ((4, 4, 4), 9, 9, []),
    ],
)
def test_what_was_computed_again_is_what_was_not_saved(
    saved: tuple[int, ...], last: int | None, lost: int | None, found: list[str]
) -> None:
    """Or the program continues from an old checkpoint. What it saves after that does not count."""
    events = [(float(at), Checkpointed(TASK, 1, step, f"ckpt-{step}")) for at, step in enumerate((*saved, 98, 99))]
    at = len(saved) - 0.5
    recovery = Recovery(
        at=at, asked=False, cause=None, collateral=(), faults=(), detected=at, planned=at, returns=(), training=True,
        went_on=False, first_step=None, last_step=last, resumed_step=None, checkpoint=None, lost=lost, ended=None,
    )  # fmt: skip
    told = [finding.text for finding in old_checkpoint_findings(events, [recovery])]
    assert [text.partition(" been")[0] for text in told] == found


def test_a_model_that_is_replaced_in_place_may_be_torn() -> None:
    """One of each task is named."""
    tasks = [Recording(TASK, 1), Recording(TASK, 1, replaced={"/b.keras", "/a\n.keras"})]
    (found,) = torn_export_findings(tasks)
    assert found.code == "export-in-place"
    assert "over the old one, /a␊.keras: if" in found.text

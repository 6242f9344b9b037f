"""The survival chapter of an exam. Chooses faults and phases, and checks what must hold after each fault."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterkit.chaos.model import Baseline, Timed
from clusterkit.exam.breaking import Interruption
from clusterkit.exam.model import Cell, Chapter, ExamFinding
from clusterkit.exam.recording import Recording
from clusterkit.text.printable import printable
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words.account import Recovery
from clusterkit.words.faults import FaultAction, Phase
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Task
from clusterkit.words.outcome import RunResult, RunState
from clusterkit.words.reports import Checkpointed

PAUSE_SECONDS = 4  # the duration of a lasting fault in a phase other than "step"
PARTITION_SECONDS = 15  # the duration of a lasting fault in "step"; TensorFlow reports missing heartbeats after 10 s
DISK_SECONDS = 3  # the duration of the disk-full fault

_RESTORE = (
    "Restore the newest checkpoint before the first step, with all that training changes, and set none of it again "
    "after that."
)
_STEPS_LEFT = (
    "Train the steps that are left: the number of the last step must not depend on the step at which the program began."
)
WIDTH = 200  # columns; longer lines of an error message are shortened
_IN_PLACE = (
    "Write another file in the same directory, file.flush(), os.fsync(file.fileno()), and then os.replace(new, path): "
    "so the file is whole at any time, the old one or the new one."
)

# Cells without a run of their own: the recording of an uninterrupted run shows what an interruption would damage.
POWER = Cell(Chapter.SURVIVAL, "power-failure/saving-rename")
EXPORT = Cell(Chapter.SURVIVAL, "interrupted/exporting")

# The phases of a program, in order. "step" is a step halfway between two checkpoints.
PHASES = (
    *(Phase.IMPORTING, Phase.STARTING, "step"),
    *(Phase.SAVING_OPEN, Phase.SAVING_WRITE, Phase.SAVING_SYNC, Phase.SAVING_RENAME, Phase.SAVED),
    *(Phase.RESTORING, Phase.EVALUATING, Phase.EXPORTING, "last-step", Phase.ENDING),
)
_SERVER_PHASES = ("step", "last-step")  # the phases in which faults are injected into servers
_IN_PHASES = {
    **dict.fromkeys((FaultAction.KILL, FaultAction.TERM, FaultAction.STOP), PHASES),
    FaultAction.MEMORY: ("step",),
    FaultAction.PARTITION: (Phase.STARTING, "step", Phase.SAVING_RENAME),
}
_LASTING_FAULTS = (FaultAction.STOP, FaultAction.PARTITION, FaultAction.MEMORY)

# Of an early interruption: the least step of the checkpoint before it. After fewer steps, a learning rate or a momentum
# that is not restored would hardly show.
EARLIEST = 8


@dataclass(frozen=True, slots=True)
class SurvivalCell:
    """A cell that tests a fault of one kind (`action`) in one task and one phase.

    `breaks` contains interruptions of the run, each after a given step. `fault` is a fault with a trigger, written as
    for `--fault`, or an empty text if the cell consists only of interruptions.
    """

    cell: Cell
    action: FaultAction
    task: Task
    phase: str
    breaks: tuple[Interruption, ...] = ()
    fault: str = ""


def survival_cells(job: JobSpec, baseline: Baseline, disk: bool, early: bool = False) -> list[SurvivalCell]:
    """Return the cells of the chapter, most informative first. `disk` says whether a full disk can be simulated.

    With `early`, training is interrupted after the first checkpoint instead of in the middle of training.
    """
    cells = []
    is_virtual = job.network is Network.VIRTUAL and len(job.tasks) > 1
    for action, phases in _IN_PHASES.items():
        if action is not FaultAction.PARTITION or is_virtual:
            for task in _victims(job):
                for phase in [one for one in phases if one in _SERVER_PHASES or not job.is_server(task)]:
                    cells.append(survival_cell(job, baseline, action, task, phase, early))
    if disk and baseline.checkpoints:
        cell = Cell(Chapter.SURVIVAL, f"{FaultAction.DISK_FULL}/{job.leader}/{Phase.SAVING_OPEN}")
        full = f"{FaultAction.DISK_FULL} for={DISK_SECONDS}s @ phase={Phase.SAVING_OPEN}"
        cells.append(SurvivalCell(cell, FaultAction.DISK_FULL, job.leader, Phase.SAVING_OPEN, fault=full))
    return [cell for cell in cells if cell.breaks or cell.fault]


def _victims(job: JobSpec) -> Iterator[Task]:
    """Yield the tasks that are hit by faults: the leader, the last of the other training tasks, and the last server."""
    yield job.leader
    others = [task for task in job.training if task != job.leader]
    servers = [task for task in job.tasks if job.is_server(task) and task not in others]
    yield from (kind[-1] for kind in (others, servers) if kind)


def survival_cell(
    job: JobSpec, baseline: Baseline, action: FaultAction, task: Task, phase: str, early: bool = False
) -> SurvivalCell:
    """Return the cell for a fault of one kind in one task and one phase.

    It has neither breaks nor a fault if the program has too few steps for it.
    """
    seconds = PARTITION_SECONDS if phase == "step" else PAUSE_SECONDS
    fault = f"{action} {task}" + (f" for={seconds}s" if action in _LASTING_FAULTS else "")
    middle, last = middle_step(baseline, early), baseline.last_step
    watched = job.leader if job.is_server(task) else task  # a server computes no steps
    breaks: tuple[Interruption, ...] = ()
    waiting = f"{fault} @ phase={phase}"
    match phase:
        case "step":
            breaks, waiting = () if middle is None else (Interruption(watched, middle, fault),), ""
        case "last-step":
            breaks, waiting = () if not last else (Interruption(watched, last, fault),), ""
        case Phase.RESTORING:  # a checkpoint is restored only after a task has died
            breaks = () if middle is None else (Interruption(job.leader, middle, f"{FaultAction.KILL} {job.leader}"),)
            waiting = waiting if breaks else ""
    return SurvivalCell(Cell(Chapter.SURVIVAL, f"{action}/{task}/{phase}"), action, task, phase, breaks, waiting)


def lasting_seconds(one: SurvivalCell) -> float:
    """Return how long the fault of a cell lasts; 0 for a fault without a duration."""
    if one.action is FaultAction.DISK_FULL:
        return DISK_SECONDS
    if one.action not in _LASTING_FAULTS:
        return 0.0
    return PARTITION_SECONDS if one.phase == "step" else PAUSE_SECONDS


def old_checkpoint_findings(events: Timed, recoveries: Iterable[Recovery]) -> Iterator[ExamFinding]:
    """Yield a finding if a recovery used an old checkpoint although at least two newer checkpoints had been saved.

    A single newer checkpoint is not a finding, since it may have been incomplete.
    """
    saved = [(at, event.step) for at, event in events if isinstance(event, Checkpointed)]
    for one in recoveries:
        if one.last_step is None or one.lost is None:
            continue
        resumed = one.last_step - one.lost
        newer = sorted({step for at, step in saved if at < one.at and step > resumed})
        if len(newer) > 1:
            yield ExamFinding(
                "old-checkpoint",
                f"It continued at step {resumed} from an old checkpoint: those of step {newer[0]} to {newer[-1]} had "
                "been saved after it.",
                "Restore the newest: tf.train.latest_checkpoint(directory), or sort the names by their numbers.",
            )
            return


def power_failure_findings(tasks: Iterable[Recording]) -> Iterator[ExamFinding]:
    """For each task of an uninterrupted run, yield a finding if the task renamed a file before syncing the file."""
    for recording in tasks:
        for path in sorted(path for path, synced in recording.renamed.items() if not synced)[:1]:
            yield ExamFinding(
                "not-synced",
                f"{recording.task} gives {printable(path)} its name before the file is on the disk: after a power "
                "failure the file may be empty, and the one before it is gone.",
                "Before os.replace: file.flush(); os.fsync(file.fileno()).",
            )


def torn_export_findings(tasks: Iterable[Recording]) -> Iterator[ExamFinding]:
    """For each task of an uninterrupted run, yield a finding if the task overwrote a model in place."""
    for recording in tasks:
        for path in sorted(recording.replaced)[:1]:
            yield ExamFinding(
                "export-in-place",
                f"{recording.task} writes a model over the old one, {printable(path)}: if it is interrupted, neither "
                "the old model nor the new one can be loaded.",
                "Save under another name in the same directory, then os.replace(new, path); or number the exports.",
            )


def why_unreachable(one: SurvivalCell, reached: Collection[str]) -> str:
    """Return why the phase of a cell can't be reached; "" if the phase can be reached.

    `reached` contains the phases that the task of the cell reached in an uninterrupted run.
    """
    if one.phase in (Phase.RESTORING, "step", "last-step") or one.phase in reached:
        return ""
    return f"{one.task} never reaches the phase {one.phase}"


def middle_step(baseline: Baseline, early: bool = False) -> int | None:
    """Return a step halfway between two checkpoints near the middle of training; None if there are too few steps.

    With `early`, they are the first two after some steps, so that a run needs fewer steps.
    """
    last = baseline.last_step
    if not last or last < 2:
        return None
    saved = sorted(step for step in baseline.checkpoints if 0 < step < last)
    if not saved:
        return max(1, last // 2)
    nearest = min(saved, key=lambda step: abs(step - last / 2))
    newest = next((step for step in saved if step >= EARLIEST), nearest) if early else nearest
    following = next((step for step in [*saved, last] if step > newest), last)
    return min(last - 1, newest + max(1, (following - newest) // 2))


def other_step(baseline: Baseline, middle: int) -> int | None:
    """Choose the checkpoint nearest to the step `middle`, and return the next step; None if there is no checkpoint.

    The last checkpoint before `middle` is avoided if there is another checkpoint. The checkpoint's own step would be
    too early, since many programs report a step before they save the checkpoint of this step.
    """
    last = baseline.last_step or 0
    saved = sorted(step for step in baseline.checkpoints if 0 < step < last - 1)
    newest = max((step for step in saved if step < middle), default=None)
    near = min((step for step in saved if step != newest), key=lambda step: abs(step - middle), default=newest)
    return None if near is None else near + 1


def torn_file(one: SurvivalCell, attempts: Mapping[tuple[Task, int], Recording]) -> tuple[str, int] | None:
    """Return the file that the cell's task was writing when the fault came, if a later attempt read it by that name.

    Return the path, and the number of the attempt that read it; None if there is no such file. A file that is written
    under another name, and then renamed, is read by a name under which no attempt wrote it.
    """
    if one.phase not in (Phase.SAVING_OPEN, Phase.SAVING_WRITE, Phase.SAVING_SYNC):
        return None
    in_place = set[str]()
    for (task, number), recording in sorted(attempts.items(), key=lambda item: item[0][1]):
        for path in sorted(recording.read & in_place):
            return path, number
        if task == one.task:
            in_place |= recording.files - recording.renamed.keys()
    return None


def recovery_remedy(result: RunResult | None, last_step: int | None) -> str:
    """Return what mends a program that recovered, but to something else than a run without faults.

    Such a run ends at `last_step`; None if it is unknown.
    """
    if result is None or result.state is not RunState.SUCCEEDED:
        return ""
    return _RESTORE if last_step in (None, result.last_step) else _STEPS_LEFT


def survival_findings(
    result: RunResult | None,
    violations: Sequence[str],
    began_anew: bool = False,
    differing: str = "",
    torn: tuple[str, int] | None = None,
    remedy: str = "",
) -> Iterator[ExamFinding]:
    """Yield findings about a run with a fault: the run failed, violated invariants, or ended with different values.

    `torn` is what `torn_file` returns. `remedy` mends what the first of the violations says.
    """
    cause = ""
    if torn is not None:
        path, number = torn
        cause = f" The fault came while {printable(path)} was written, and attempt {number} read that file."
        remedy = _IN_PLACE
    if result is None or result.state is not RunState.SUCCEEDED:
        why = "it left no result" if result is None else _with_exception(result)
        if torn is None and result is not None and result.explanations:
            remedy = str(result.explanations[0])
        yield ExamFinding("not-recovered", f"The job did not recover: {why}.{cause}", remedy)
        return
    for number, text in enumerate(violations):
        code = "began-anew" if began_anew else "result-differs"
        yield ExamFinding(code, text if number else f"{text}{cause}", "" if number else remedy)
    if differing and not violations:
        yield ExamFinding(
            "result-differs",
            f"Training recovered to something else: at the end {differing} is not that of the unbroken run.{cause}",
            remedy,
        )


def _with_exception(result: RunResult) -> str:
    """Return why a run failed, with the last line of the exception that ended it, if it was one."""
    reason = result.reason.rstrip(".")
    if result.cause is None or result.cause.exception is None:
        return reason
    lines = [printable(line).strip() for line in cause_lines(result.cause.tail, WIDTH)[-1:]]
    return "; ".join([reason, *(line.rstrip(".") for line in lines if line and line.rstrip(".") not in reason)])

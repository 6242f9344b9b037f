"""Survival: which faults are injected in which phases, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clusterkit.chaos.model import Baseline
from clusterkit.exam.model import Cell, Chapter, Finding
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task
from clusterkit.words.outcome import RunResult, RunState

FROZEN = 4  # seconds for which a task is stopped: longer than a peer waits for a packet
FULL = 3  # seconds for which the disk is full

# The phases of a program, in its order. A step is one in the middle between two checkpoints.
PHASES = (
    *("importing", "starting", "step", "saving-open", "saving-write", "saving-sync", "saving-rename", "saved"),
    *("restoring", "evaluating", "exporting", "last-step", "ending"),
)
QUICK = ("starting", "step", "saving-rename", "saved", "restoring", "ending")
_SAVING = frozenset(phase for phase in PHASES if phase.startswith("saving"))


@dataclass(frozen=True, slots=True)
class SurvivalCell:
    """A fault for one task in one phase; `faults` are in the grammar of `--fault`."""

    cell: Cell
    phase: str
    faults: tuple[str, ...]


def survival_cells(job: JobSpec, baseline: Baseline, disk: bool) -> list[SurvivalCell]:
    """All cells, those that tell most first. `disk`: this machine can fill up a checkpoint directory."""
    victims = list(_victims(job))
    found = []
    for action in (FaultAction.KILL, FaultAction.TERM, FaultAction.STOP):
        for task in victims:
            for phase in PHASES:
                if job.is_server(task) and phase not in ("importing", "step", "last-step"):
                    continue  # a server makes no steps of its own, and saves nothing
                found.append(_cell(job, baseline, action, task, phase))
    if disk and baseline.checkpoints:
        name = f"{FaultAction.DISK_FULL}/{job.leader}/saving-open"
        fault = f"{FaultAction.DISK_FULL} for={FULL}s @ phase=saving-open"
        found.append(SurvivalCell(Cell(Chapter.SURVIVAL, name), "saving-open", (fault,)))
    return [cell for cell in found if cell.faults]


def _victims(job: JobSpec) -> Iterator[Task]:
    """One task of each kind: the leader, the last of the others that train, the last server."""
    yield job.leader
    others = [task for task in job.training if task != job.leader]
    servers = [task for task in job.tasks if job.is_server(task) and task not in others]
    yield from (kind[-1] for kind in (others, servers) if kind)


def _cell(job: JobSpec, baseline: Baseline, action: FaultAction, task: Task, phase: str) -> SurvivalCell:
    lasting = f" for={FROZEN}s" if action is FaultAction.STOP else ""
    fault = f"{action} {task}{lasting}"
    middle = middle_step(baseline)
    faults: tuple[str, ...] = (f"{fault} @ phase={phase}",)
    match phase:
        case "step":
            faults = () if middle is None else (f"{fault} @ step={middle}",)
        case "last-step":
            faults = () if not baseline.last_step else (f"{fault} @ step={baseline.last_step}",)
        case "restoring":
            # Nothing is restored before something has died.
            faults = () if middle is None else (f"kill {job.leader} @ step={middle}", faults[0])
    return SurvivalCell(Cell(Chapter.SURVIVAL, f"{action}/{task}/{phase}"), phase, faults)


def middle_step(baseline: Baseline) -> int | None:
    """A step between two checkpoints, about in the middle of the training; None if the program makes no steps."""
    last = baseline.last_step
    if not last or last < 2:
        return None
    saved = sorted(step for step in baseline.checkpoints if 0 < step < last)
    if not saved:
        return max(1, last // 2)
    newest = min(saved, key=lambda step: abs(step - last / 2))
    following = next((step for step in [*saved, last] if step > newest), last)
    return min(last - 1, newest + max(1, (following - newest) // 2))


def survived(result: RunResult | None, said: Sequence[str], differing: str) -> Iterator[Finding]:
    """What did not hold after a fault. `said` are violated invariants, `differing` a variable of another value."""
    if result is None or result.state is not RunState.SUCCEEDED:
        why = "it left no result" if result is None else result.reason
        told = () if result is None else result.explanations
        yield Finding("not-recovered", f"The job did not recover: {why}.", str(told[0]) if told else "")
        return
    anew = [text for text in said if "step 0" in text]
    for text in said:
        yield Finding("began-anew" if text in anew else "result-differs", text)
    if differing and not said:
        yield Finding(
            "result-differs",
            f"Training recovered to something else: at the end {differing} is not that of the unbroken run.",
        )


def compares_exactly(job: JobSpec) -> bool:
    """Whether two runs of the job can end in the same bits: parameter servers take updates as they come."""
    return job.shape is not Shape.PARAMETER_SERVER

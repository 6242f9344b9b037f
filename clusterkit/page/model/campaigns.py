"""Turns a campaign into entities: one for the campaign itself, and one for each run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from clusterkit.page.model.entities import CampaignRun, Entity
from clusterkit.text.printable import printable, printable_lines
from clusterkit.words.campaign import CampaignRecord, RunningRecord, RunRecord
from clusterkit.words.model import number_of

PASSED, FAILED, INTERRUPTED, RUNNING = "passed", "failed", "interrupted", "running"


@dataclass(frozen=True, slots=True)
class CampaignEntity:
    """A campaign. The entity's key is `campaign`, or `campaign/ID` in the list of all campaigns."""

    id: str
    program: str
    shape: str
    command: str  # the command that repeats the campaign
    state: str  # running, passed, failed, stopped, or lost if the campaign's process was killed
    text: str  # a sentence about the result so far, or the reason why there are no runs
    wall: float  # the wall time at which the campaign began
    ended: float | None  # the wall time at which the campaign ended
    clusterkit: str
    seed: int
    asked: int  # the requested number of runs; the next three fields also count runs
    passed: int
    failed: int
    running: int
    used: tuple[str, ...]  # the actions that the campaign's faults may have
    baseline: CampaignBaseline | None
    tallies: tuple[Tally, ...]  # a tally for each action, and for each combination of an action and a type of task


@dataclass(frozen=True, slots=True)
class CampaignBaseline:
    """The result of the run without faults, with which the other runs are compared."""

    seconds: float
    step: int | None
    checkpoints: tuple[int, ...]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tally:
    """How often faults with an action were injected, and how the tasks recovered from these faults."""

    action: str
    type: str  # the type of the tasks that were affected; empty for all types together
    injected: int
    recovered: int
    seconds: tuple[float, ...]  # the durations of the recoveries, in ascending order


def campaign_entities(record: CampaignRecord, kept: Collection[str] = ()) -> dict[str, Entity]:
    """Return all entities of a campaign; `kept` contains the ids of runs that still have directories."""
    entities: dict[str, Entity] = {"campaign": campaign_entity(record)}
    for run in record.runs:
        entities[f"of/{run.run}"] = _run(run, FAILED if run.violations else PASSED, run.run_id in kept)
    for cut in record.interrupted:
        entities.setdefault(f"of/{cut.run}", _run(cut, INTERRUPTED, cut.run_id in kept))
    for begun in record.running if record.state == RUNNING else ():
        entities.setdefault(f"of/{begun.run}", _run(begun, RUNNING, begun.run_id in kept))
    return entities


def campaign_entity(record: CampaignRecord) -> CampaignEntity:
    failed, baseline = len(record.failing), None
    if (told := record.baseline) is not None:
        metrics = {printable(name): value for name, value in told.metrics.items()}
        baseline = CampaignBaseline(told.duration, told.last_step, told.checkpoints, metrics)
    return CampaignEntity(
        id=record.campaign,
        program="" if record.job is None else printable(str(record.job.program)),
        shape="" if record.job is None else record.job.shape_text,
        command=printable_lines(record.command),
        state=printable(record.state),
        text=_text(record, failed),
        wall=record.begun,
        ended=record.ended,
        clusterkit=printable(record.clusterkit),
        seed=record.seed,
        asked=record.asked_for,
        passed=len(record.runs) - failed,
        failed=failed,
        running=len(record.running) if record.state == RUNNING else 0,
        used=tuple(map(printable, record.used)),
        baseline=baseline,
        tallies=tuple(_tallies(record)),
    )


def action_of(fault: str) -> str:
    """Return the action of a fault such as `kill worker:1 @ step=3`."""
    return fault.strip().partition(" ")[0]


def _text(record: CampaignRecord, failed: int) -> str:
    if record.problem:
        what = "The job fails even without faults" if record.baseline is None else "The campaign could not continue"
        return f"{what}: {printable(record.problem).rstrip('.')}."
    if record.baseline is None:
        return "The run without faults is under way." if record.state == RUNNING else "It ended before its first run."
    if not record.runs:
        return "No run has ended yet." if record.state == RUNNING else "No run has ended."
    ended = f"{len(record.runs) - failed} of {number_of('run', len(record.runs))} passed"
    asked = "" if len(record.runs) == record.asked_for else f"; {record.asked_for} were asked for"
    cut = f", and {len(record.interrupted)} interrupted" if record.interrupted else ""
    return f"{ended}{asked}{cut}."


def _run(run: RunRecord | RunningRecord, outcome: str, kept: bool) -> CampaignRun:
    ended = run if isinstance(run, RunRecord) else None
    recoveries = () if ended is None else ended.result.recoveries
    return CampaignRun(
        number=run.run,
        seed=run.seed,
        actions=tuple(dict.fromkeys(printable(action_of(fault)) for fault in run.faults)),
        faults=tuple(map(printable, run.faults)),
        outcome=outcome,
        violations=() if ended is None else tuple(map(printable, ended.violations)),
        seconds=0.0 if ended is None else ended.duration,
        recoveries=tuple(round(one.ended - one.at, 3) for one in recoveries if one.ended is not None),
        lost=tuple(one.lost for one in recoveries if one.lost is not None),
        replay="" if ended is None else printable_lines(ended.replay),
        run=run.run_id if kept else None,
    )


def _tallies(record: CampaignRecord) -> Iterator[Tally]:
    seconds = defaultdict[tuple[str, str], list[float]](list)
    for injection in (one for run in record.runs for one in run.injections):
        for kind in ("", *injection.types) if injection.seconds is not None else ():
            seconds[injection.action, kind].append(injection.seconds or 0.0)
    for row in (*record.actions, *record.recovery_times):
        times = tuple(sorted(seconds[row.action, row.type or ""]))
        yield Tally(printable(row.action), printable(row.type or ""), row.injected, row.recovered, times)

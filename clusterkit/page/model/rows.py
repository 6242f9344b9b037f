"""Creates the entities for a run, its tasks, its job, and the network between the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations

from clusterkit.job.jobfile import job_text
from clusterkit.job.options import command_of, options_of, resume_command, start_command
from clusterkit.job.plan import cluster_json, tf_config
from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunPhase, TaskStatus
from clusterkit.page.model.entities import NetworkCell, Resolved, Run, TaskRow
from clusterkit.store.directory import RunInfo
from clusterkit.store.paths import RunPaths
from clusterkit.text.printable import printable_lines
from clusterkit.views.guidance import end_guidance, guidance
from clusterkit.views.listing import run_state, straggler_note
from clusterkit.views.naming import main_metric
from clusterkit.views.situations import ending, told
from clusterkit.views.tracebacks import cause_lines
from clusterkit.words.errors import BadJob
from clusterkit.words.events import FaultInjected
from clusterkit.words.faults import ON_NETWORK, FaultAction
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Shape, Task
from clusterkit.words.outcome import SIGKILL, Failure, RunResult
from clusterkit.words.secrets import without_secrets

STRATEGIES = {
    Shape.PARAMETER_SERVER: "ParameterServerStrategy",
    Shape.MULTI_WORKER: "MultiWorkerMirroredStrategy",
    Shape.SINGLE: "",
}
ERROR_COLUMNS = 120  # the maximum width of the lines that show a failed task's error
LONGEST_TEXT = 2000  # the maximum length of a text from a task or a job, in characters
MOST_METRICS = 50  # the maximum number of metrics in a task's row
Usage = Mapping[Task, tuple[float, int]]
NO_USAGE: Usage = {}
MOST_TASKS = 40  # the maximum number of tasks for which the network is shown; n tasks have n * (n - 1) cells


@dataclass(slots=True)
class Now:
    """The part of a run's current state that is not in the journal.

    `wall` is the present wall time, and `began` is the wall time at which the run began.
    """

    wall: float
    live: bool
    began: float
    usage: Usage
    ended: float | None = None  # when the run ended, in seconds since the run began
    tensorboard: str | None = None
    result: RunResult | None = None  # the contents of the result file, which include explanations


def new_run(paths: RunPaths, info: RunInfo | None) -> Run:
    """Return the entity of a run with the fields that never change. These are known before the run begins."""
    run = Run(paths.run_id, directory=clean(str(paths.path)))
    if info is None:
        return run
    job = info.job
    return replace(
        run,
        program=clean(str(job.program)),
        command=clean(command_of(job)),
        shape=job.shape_text,
        network=job.network.value,
        engine=job.hosts.engine if job.hosts.count else run.engine,
    )


def connected(run: Run, info: RunInfo | None) -> Run:
    """Return the run with the strategy of its shape, once a task has created one: a program may not use TensorFlow."""
    return run if info is None else replace(run, strategy=STRATEGIES[info.job.shape])


def run_entity(run: Run, ledger: Ledger, now: Now) -> Run:
    status = ledger.run
    result = now.result or status.result
    phase = RunPhase.OVER if not now.live else status.phase
    starting = phase is RunPhase.RUNNING and not ledger.time.conditions.has_steps and status.restarts == 0
    doing, text, speed = told(ledger, now.wall, now.wall - now.began) if now.live else ("", "", None)
    if now.live:
        resume, advice = None, guidance(ledger, run.id)
    else:
        resume = resume_command(run.id, ledger.job, result, status.checkpoint is not None)
        part_of = None if ledger.job is None else ledger.job.part_of
        advice = end_guidance(result, ledger.incidents.report(), run.id, resume, start_command(ledger.job), part_of)
    failure = ledger.interruptions.failure if now.live else None if result is None else result.cause
    return replace(
        run,
        phase="starting" if starting else phase.value,
        state="" if now.live else run_state(False, phase, result),
        now=doing,
        text=clean(text if now.live else ending(result)),
        why=clean(advice.why),
        heading=advice.heading,
        todo=clean(advice.todo),
        commands=tuple(map(clean, advice.commands)),
        error=_error(failure),
        is_error=advice.is_error,
        wall=now.began,
        ended=now.ended,
        step=status.step,
        total=status.total,
        saved=None if status.checkpoint is None else status.checkpoint[0],
        unsaved=status.unsaved,
        speed=speed,
        metric=None if (main := main_metric(status.metrics)) is None else clean(main),
        restarts=status.restarts,
        exit_code=None if result is None else result.exit_code,
        tensorboard=now.tensorboard if now.live else None,
        resume=None if resume is None else clean(resume),
    )


def _error(failure: Failure | None) -> tuple[str, ...]:
    """Return the lines that a failed task printed about its error.

    The last lines of a task that was stopped or killed are left out, since they don't show the cause.
    """
    if failure is None or failure.exit.asked is not None or failure.exit.signal == SIGKILL:
        return ()
    return tuple(clean(line) for line in cause_lines(failure.tail, ERROR_COLUMNS))


def task_entity(of: TaskStatus, number: int, now: Now, trains: bool = True) -> TaskRow:
    usage = now.usage.get(of.task)
    note = f"is waiting in the debugger at {of.debugger}" if of.debugger else straggler_note(of) or ""
    return TaskRow(
        task=str(of.task),
        type=of.task.type.value,
        color=number,
        state=of.shown_state if now.live or not of.alive else "lost",
        attempt=of.attempt,
        host=of.host,
        endpoint=of.endpoint,
        pid=of.pid if now.live else None,
        ready=now.live and of.ready,
        step=of.step,
        old=of.step is not None and not of.reports,
        steps=trains,
        total=of.total,
        speed=of.speed(now.wall) if now.live else None,
        metrics={clean(name): of.metrics[name] for name in list(of.metrics)[:MOST_METRICS]},
        cpu=None if usage is None else round(usage[0], 1),
        memory=None if usage is None else usage[1],
        faults=tuple(action.value for action in of.faults.values()) if now.live else (),
        note=clean(note) if now.live else "",
    )


def resolved_entity(info: RunInfo, endpoints: Mapping[Task, str]) -> Resolved:
    """Return the job as a job file and the TF_CONFIG of each task, with secrets removed."""
    job = without_secrets(info.job)
    try:
        text = job_text(options_of(job))
    except (BadJob, ValueError) as error:
        text = f"# This job can't be written as a job file: {' '.join(str(error).split())}\n"
    configs = dict[str, str]()
    if all(task in endpoints for task in job.cluster):
        cluster = cluster_json(job, endpoints)
        configs = {str(task): config for task in job.tasks if (config := tf_config(job, task, cluster)) is not None}
    return Resolved(printable_lines(text), configs)


def clean(text: str) -> str:
    """Make the control characters visible in a text from a task or a user, and shorten the text if it is too long."""
    return printable_lines(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…")


def cells(job: JobSpec | None, faults: Iterable[FaultInjected]) -> Iterator[NetworkCell]:
    """Yield the cells of the network while the faults in `faults` are open.

    Without a virtual network, or with more than MOST_TASKS tasks, there are no cells.
    """
    if job is None or job.network is not Network.VIRTUAL or len(job.tasks) > MOST_TASKS:
        return
    names = list(map(str, job.tasks))
    layers = dict[tuple[str, str], dict[int, FaultInjected]]((pair, {}) for pair in permutations(names, 2))
    for fault in faults:
        for a in map(str, fault.tasks) if fault.action in ON_NETWORK else ():
            for b in list(map(str, fault.others)) or names:
                for pair in layers.keys() & {(a, b), (b, a)}:
                    layers[pair][fault.number] = fault
    for (source, target), found in layers.items():
        cell = NetworkCell(source, target, None, None, None, None, False, ())
        for fault in found.values():
            cell = _impaired(cell, fault)
        yield cell


def _impaired(cell: NetworkCell, fault: FaultInjected) -> NetworkCell:
    faults = (*cell.faults, fault.number)
    amount: float | None = None
    with suppress(BadJob):
        amount = parse_fault(fault.fault).amount
    match fault.action:
        case FaultAction.PARTITION:
            return replace(cell, cut=True, faults=faults)
        case FaultAction.DELAY:
            return replace(cell, delay=(cell.delay or 0.0) + (amount or 0.0), faults=faults)
        case FaultAction.LOSS:
            kept = (1 - (cell.loss or 0.0)) * (1 - (amount or 0.0))
            return replace(cell, loss=round(1 - kept, 6), faults=faults)
        case FaultAction.RATE:
            rates = [rate for rate in (cell.rate, amount) if rate is not None]
            return replace(cell, rate=min(rates, default=None), faults=faults)
    return replace(cell, faults=faults)

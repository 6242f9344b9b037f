"""Launching: starts the guardian, the supervisor, and everything that a run needs around the loop."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from clusterkit import __version__
from clusterkit.backends.agents.backend import AgentsBackend
from clusterkit.backends.agents.engine import Engine
from clusterkit.backends.agents.gathering import NoHosts
from clusterkit.backends.base import Backend
from clusterkit.backends.local.backend import LocalBackend
from clusterkit.check.explaining import explained
from clusterkit.client.checkpoints import continue_from
from clusterkit.client.directory import RunDirectory, RunInfo
from clusterkit.client.store import RunStore, new_run_id
from clusterkit.engines.choice import engine_for
from clusterkit.machine import Machine
from clusterkit.recovery.account import AccountFold
from clusterkit.supervisor import crash, signals
from clusterkit.supervisor.allocation import again, ends
from clusterkit.supervisor.beside import start_beside
from clusterkit.supervisor.control import ControlServer
from clusterkit.supervisor.guardian import guard
from clusterkit.supervisor.handover import hand_over
from clusterkit.supervisor.journal import Journal
from clusterkit.supervisor.loop import Loop
from clusterkit.supervisor.lost import supervisor_lost
from clusterkit.supervisor.notices import HEEDED, Notices
from clusterkit.supervisor.past import NONE, Past, take_over
from clusterkit.supervisor.prepare import Prepared
from clusterkit.system.barrier import crashed
from clusterkit.system.inbox import Inbox
from clusterkit.system.platform import platform_of
from clusterkit.system.process import ENDING
from clusterkit.system.sweep import WillNotDie
from clusterkit.views.console import Console, Show
from clusterkit.views.narrate import Level, is_bad, sentence
from clusterkit.views.report import report
from clusterkit.warm.choice import launch_for, warm_places
from clusterkit.warm.run_server import Launch
from clusterkit.warm.session import Session
from clusterkit.warm.starter import Inherited, Warmth
from clusterkit.words.account import Account
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Crashed, Event, Placed, StorageFailed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import SUSPENDED, RunResult, RunState
from clusterkit.words.printable import printable_lines
from clusterkit.words.resources import EngineKind
from clusterkit.words.secrets import without_secrets

GUARDIAN = "clusterkit's guardian process"
OWNER = "the Python process that started the run"


@dataclass(frozen=True, slots=True)
class Display:
    """How a run is shown."""

    show: Show = field(default_factory=Show)
    level: Level = Level.INFO


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is about to begin, in this process or in another one."""

    prepared: Prepared
    run_id: str
    display: Display
    launch: Launch | None = None  # of its fork server

    @property
    def directory(self) -> RunDirectory:
        """Its directory, which may not exist yet."""
        return RunStore().run(self.run_id, self.prepared.job.checkpoint_dir)

    def warned(self, warning: str) -> Run:
        """Return the same run with one more warning."""
        return replace(self, prepared=replace(self.prepared, warnings=(*self.prepared.warnings, warning)))

    def supervise(self, lifelines: Mapping[int, str], inherited: Inherited | None = None) -> int:
        """Be the supervisor, perhaps with a fork server that runs already; return the exit code."""
        try:
            return _supervise(self, lifelines, inherited)
        except ClusterkitError as error:
            print(f"clusterkit: {printable_lines(str(error))}", file=sys.stderr)
            return error.exit_code
        except Exception as error:
            return crash.end(self.directory, crashed("its supervisor", error))


def up(prepared: Prepared, display: Display, lifeline: int | None = None, session: Session | None = None) -> int:
    """Run a prepared job to its end under a guardian; return the exit code.

    `lifeline` is a pipe to the Python process that the run must not outlive; `session` is that process where it keeps
    warm servers.
    """
    run = Run(prepared, prepared.run_id or new_run_id(), display)
    on_hosts = prepared.job.hosts.count > 0  # each agent has a fork server of its own
    heeded = HEEDED if prepared.continues else ENDING
    launch = None if on_hosts else launch_for(prepared.job, run.directory)
    run = run.warned(f"Tasks start cold: {launch}.") if isinstance(launch, str) else replace(run, launch=launch)
    for place in () if prepared.continues else warm_places(run.launch, session, lifeline):
        code = place if isinstance(place, str) else hand_over(place, run, run.directory, lifeline)
        if isinstance(code, int):
            return code
        run = run.warned(code)
    owner = {} if lifeline is None else {lifeline: OWNER}
    return guard(
        lambda guardian: run.supervise({guardian: GUARDIAN, **owner}),
        lambda number, left: _lost(run, number, left),
        heeded,
    )


def _lost(run: Run, number: int, left: int) -> int:
    supervisor_lost(run.run_id, number, left)
    return SUSPENDED if run.prepared.continues else 1


def _supervise(run: Run, lifelines: Mapping[int, str], inherited: Inherited | None) -> int:
    prepared, run_id, display = run.prepared, run.run_id, run.display
    job, inbox = prepared.job, Inbox()
    for lifeline, who in lifelines.items():
        inbox.watch(lifeline, who)
    directory = run.directory
    engine = engine_for(job, directory, prepared.continues) if job.hosts.count else None
    _listen(prepared, engine, inbox)
    past = take_over(directory, job) if prepared.continues else None
    if past is None:
        directory.make()
    seed = _seed(job, past)
    with ExitStack() as stack:
        console = Console(sys.stdout.fileno(), job.tasks, display.show, inbox.put)
        stack.callback(console.close)
        backend = _backend(job, seed, inbox, console, engine, Warmth(run.launch, inherited))
        stack.callback(backend.shut)
        try:
            warnings = _fill(directory, prepared, backend, seed, past)
        except NoHosts:
            if not ends(engine, inbox):
                raise
            backend.leave()
            return again(engine)
        for warning in [*warnings, *prepared.warnings]:
            console.say(warning, bad=True)
        if display.level <= Level.INFO:
            console.say(_greeting(job, run_id, directory))
            if job.faults:
                console.say(f"Faults are drawn from the seed {seed}; --seed {seed} replays them.")
        result, recovered = _run(run, seed, directory, inbox, console, backend, past or NONE)
        signals.end_with(result.exit_code, HEEDED if prepared.continues else ENDING)
        console.block(report(result, directory, display.show.color, recovered=recovered))
    return again(engine) if result.state is RunState.SUSPENDED else result.exit_code


def _listen(prepared: Prepared, engine: Engine | None, inbox: Inbox) -> None:
    if prepared.continues:
        signals.listen(Notices(engine, inbox).signalled, HEEDED)
    else:
        signals.listen(inbox.put)


def _seed(job: JobSpec, past: Past | None) -> int:
    if past is not None and past.info is not None:
        return past.info.seed
    return secrets.randbits(32) if job.seed is None else job.seed


def _backend(job: JobSpec, seed: int, inbox: Inbox, console: Console, engine: Engine | None, warmth: Warmth) -> Backend:
    if engine is None:
        return LocalBackend(job, seed, inbox, console.output, warmth)
    return AgentsBackend(job, seed, inbox, console.output, engine)


def _run(
    run: Run, seed: int, directory: RunDirectory, inbox: Inbox, console: Console, backend: Backend, past: Past
) -> tuple[RunResult, Account]:
    job, level = run.prepared.job, run.display.level
    full, fold = [False], AccountFold(job)
    for at, event in past.events:
        fold.take(at, event)

    def storage_failed(error: str) -> None:
        if not full[0]:
            full[0] = True
            inbox.put(StorageFailed(f"{error}. The run directory is {directory.path}"))

    greeting = {"run_id": directory.run_id, "clusterkit": __version__, "pid": os.getpid()}

    def observe(event: Event, now: float) -> None:
        journal.write(event, now)
        console.see(time.time(), event)
        fold.take(now, event)
        if isinstance(event, Crashed):
            console.say(crash.keep(directory, event), bad=True)
        if isinstance(event, Placed):
            _move(directory, event, storage_failed)
        told = sentence(event)
        if told is not None and told[0] >= level:
            console.say(told[1], bad=is_bad(event))

    with ExitStack() as stack:  # each of these is ended, also if another one fails to end
        journal = Journal(directory.journal, time.time, storage_failed)
        stack.callback(journal.close)
        control = ControlServer(directory, greeting, inbox.put)
        stack.callback(control.stop)
        stack.callback(backend.shut)
        start_beside(job, directory, inbox.put, console.say if level <= Level.INFO else None, stack)
        machine = Machine(job, seed, past.before)
        loop = Loop(machine, backend, inbox, observe, control.answer, past.first, past.clock)
        result = explained(loop.run(), job)
        if not result.final:
            backend.leave()
        recovered = fold.report()
        _write_result(directory, result, recovered, console)
    return result, recovered


def _move(directory: RunDirectory, placed: Placed, failed: Callable[[str], None]) -> None:
    try:
        directory.move(placed.endpoints)
    except OSError as error:
        failed(f"job.json could not be written: {error.strerror}")


def _write_result(directory: RunDirectory, result: RunResult, recovered: Account, console: Console) -> None:
    try:
        directory.write_result(result, recovered)
    except OSError as error:
        console.say(f"result.json could not be written: {error.strerror}.", bad=True)


def _fill(directory: RunDirectory, prepared: Prepared, backend: Backend, seed: int, past: Past | None) -> Sequence[str]:
    """Write what the run's directory has to contain before a task starts; return warnings about earlier runs.

    On an error, remove the directory, unless the run continues.
    """
    if past is not None:
        warnings = _reap(backend)  # of this very run, too
        directory.write_info(_info(directory, prepared.job, backend.place(directory), seed, past.info))
        return warnings
    try:
        directory.lock()
        directory.write_info(_info(directory, prepared.job, backend.place(directory), seed))
        if prepared.resume is not None:
            continue_from(prepared.resume.used_checkpoints(), directory.checkpoints)
    except ClusterkitError:
        directory.discard()
        raise
    return _reap(backend)


def _info(
    directory: RunDirectory, job: JobSpec, endpoints: Mapping[Task, str], seed: int, before: RunInfo | None = None
) -> RunInfo:
    return RunInfo(
        run_id=directory.run_id,
        created=time.time() if before is None else before.created,
        clusterkit=__version__,
        pid=os.getpid(),
        host=socket.gethostname(),
        slurm_job=int(os.environ.get("SLURM_JOB_ID", 0)) if job.hosts.engine is EngineKind.SLURM else 0,
        cwd=str(Path.cwd()),
        seed=seed,
        endpoints=endpoints,
        checkpoints=str(directory.checkpoints),
        platform=platform_of(job.setup.python),
        job=without_secrets(job),  # no environment is read from here
    )


def _reap(backend: Backend) -> list[str]:
    try:
        return [
            f"The run {run_id} had lost its supervisor and left {number_of('process', count)} behind, "
            "which clusterkit killed."
            for run_id, count in backend.strays().items()
        ]
    except WillNotDie as error:
        return [f"An earlier run lost its supervisor and left processes behind. {error}"]


def _greeting(job: JobSpec, run_id: str, directory: RunDirectory) -> str:
    counts = ", ".join(number_of(kind, count) for kind, count in job.counts.items() if count)
    return f"run {run_id}: {job.program} as {counts} ({job.shape.value}). Logs: {directory.all_tasks}"

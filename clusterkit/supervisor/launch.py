"""Starts everything that the loop needs, runs the loop, then writes and shows the result."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from clusterkit import __version__
from clusterkit.backends.base import Backend
from clusterkit.backends.local.backend import LocalBackend
from clusterkit.backends.local.usage import UsageSampler
from clusterkit.explain.explaining import explained
from clusterkit.machine.core import Machine
from clusterkit.store.cleaning import reap_strays
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.store.removals import Removals
from clusterkit.store.usage import UsageLog
from clusterkit.supervisor.control import ControlServer
from clusterkit.supervisor.loop import Loop, Observer
from clusterkit.supervisor.past_run import NEW_RUN, Absence, PastRun
from clusterkit.supervisor.prepare import PendingRun, Prepared, make_and_lock
from clusterkit.supervisor.signals import HANDLED, SignalInterpreter, end_with, is_ending, listen, request_next
from clusterkit.system.barrier import reporting_shortage
from clusterkit.system.inbox import Inbox
from clusterkit.system.platform import platform_of
from clusterkit.system.process import ENDING
from clusterkit.system.sweep import ProcessesSurvived
from clusterkit.views.console import Console
from clusterkit.views.narrate import Level
from clusterkit.views.report import report
from clusterkit.warm.choice import marks
from clusterkit.warm.fork_client import StartedServer
from clusterkit.warm.starter import ForkServerSettings
from clusterkit.words.errors import ClusterkitError, NoHosts
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import RunResult, RunState
from clusterkit.words.secrets import without_secrets

if TYPE_CHECKING:
    from clusterkit.backends.hosts.allocation import Allocation
    from clusterkit.engines.base import Engine


def launch(run: PendingRun, directory: RunDirectory, lifelines: Mapping[int, str], server: StartedServer | None) -> int:
    """Run the job; return the exit code. The directory must exist and be locked, unless the run is continued."""
    prepared, run_id, display = run.prepared, run.run_id, run.display
    job, inbox = prepared.job, Inbox()
    for lifeline, who in lifelines.items():
        inbox.watch(lifeline, who)
    allocation = _allocation(prepared, directory)
    inbox.heed_signals()
    if prepared.continues:
        listen(SignalInterpreter(allocation, inbox).handle, HANDLED)
    else:
        listen(inbox.put)
    past_run, absence = _past_run(prepared, directory)
    seed = secrets.randbits(32) if job.seed is None else job.seed
    if past_run is not None and past_run.info is not None:
        seed = past_run.info.seed
    with ExitStack() as stack:
        console = Console(sys.stdout.fileno(), job.tasks, display.show, inbox.put)
        stack.callback(console.close)
        backend = _backend(job, seed, inbox, console, allocation, ForkServerSettings(run.launch, server))
        stack.callback(backend.shut)
        try:
            warnings = _fill_directory(directory, run, backend, seed, past_run)
        except NoHosts as error:
            if not is_ending(allocation, inbox):
                error.exit_code = error.exit_code if inbox.interrupted_by is None else 128 + inbox.interrupted_by
                raise
            backend.suspend()
            return request_next(allocation)
        for warning in [*warnings, *prepared.warnings]:
            console.say(warning, bad=True)
        if absence is not None and (absence.removal is not None or display.level <= Level.INFO):
            console.say(str(absence), bad=absence.removal is not None)
        if display.level <= Level.INFO:
            what = f"{job.program} as {job.shape_text} ({job.shape.value})"
            console.say(f"run {run_id}: {what}. Logs: {directory.all_tasks}")
            if any(fault.is_random for fault in job.faults):
                console.say(f"Faults are drawn from the seed {seed}; --seed {seed} replays them.")
        past_run = past_run or NEW_RUN
        observer = Observer(run, directory, inbox, console, past_run)
        result = _run(run, seed, observer, backend, inbox, past_run)
        end_with(result.exit_code, HANDLED if prepared.continues else ENDING)
        console.block(report(result, directory, display.show.color, recovered=observer.account()))
    return request_next(allocation) if result.state is RunState.SUSPENDED else result.exit_code


def _past_run(prepared: Prepared, directory: RunDirectory) -> tuple[PastRun | None, Absence | None]:
    """Return the record of the run to continue or, for a run that `--continue` begins, why there is none to continue.

    A new run's directory exists and is locked when this function returns.
    """
    if not prepared.continues:
        return None, None
    from clusterkit.supervisor.takeover import take_over

    past_run = take_over(directory, prepared.job)
    if past_run is not None:
        return past_run, None
    absence = Absence(directory.run_id, Removals(directory.path.parent.parent).find(directory.run_id))
    make_and_lock(directory)
    return None, absence


def _allocation(prepared: Prepared, directory: RunDirectory) -> Allocation | None:
    if (engine := _engine(prepared.job)) is None:
        return None
    try:
        return engine.allocation(prepared.job, directory, prepared.continues)
    except ClusterkitError:
        if not prepared.continues:
            directory.discard()
        raise


def _engine(job: JobSpec) -> Engine | None:
    if not job.hosts.count:
        return None
    from clusterkit.engines.base import engine_named  # imported here since most runs have no hosts

    return engine_named(job.hosts.engine)


def _backend(
    job: JobSpec, seed: int, inbox: Inbox, console: Console, allocation: Allocation | None, warmth: ForkServerSettings
) -> Backend:
    if allocation is None:
        return LocalBackend(job, seed, inbox, console.output, warmth)
    from clusterkit.backends.hosts.backend import AgentsBackend

    return AgentsBackend(job, seed, inbox, console.output, allocation)


def _run(
    run: PendingRun, seed: int, observer: Observer, backend: Backend, inbox: Inbox, past_run: PastRun
) -> RunResult:
    job, directory = run.prepared.job, observer.directory
    greeting = {"run_id": run.run_id, "clusterkit": __version__, "pid": os.getpid()}
    with ExitStack() as stack:  # stops every component below, even if stopping another component fails
        stack.callback(observer.close)
        control = ControlServer(directory, greeting, inbox.put)
        stack.callback(control.stop)
        stack.callback(backend.shut)
        if isinstance(backend, LocalBackend):  # with several hosts, the agents take the samples
            stack.callback(UsageSampler(UsageLog(directory.usage).add, backend.pids, inbox.put).stop)
        _start_companions(job, directory, inbox, observer.announce, stack)
        observer.start_hooks(stack)
        machine = Machine(job, seed, past_run.history)
        loop = Loop(
            machine,
            backend,
            inbox,
            observer.observe,
            control.answer,
            past_run.first(run.prepared.doubts, run.prepared.verification),
            past_run.clock,
        )
        result = explained(loop.run(), job, directory, observer.account())
        if not result.final:
            backend.suspend()
        return observer.write_result(result)


def _start_companions(
    job: JobSpec, directory: RunDirectory, inbox: Inbox, say: Callable[[str], None] | None, stack: ExitStack
) -> None:
    """Start the companions that the job requests; `stack` stops them. `say` prints a line on the terminal only.

    Each companion is imported only if it is needed.
    """
    if job.tensorboard:
        from clusterkit.tensorboard.companion import start_tensorboard

        stack.callback(start_tensorboard(directory, inbox.put, env=marks(directory, "tensorboard")).stop)
    if job.needs_dashboard:
        from clusterkit.page.companion import DashboardProcess

        env = marks(directory, "dashboard")
        stack.callback(DashboardProcess(directory, inbox.put, say, job.dashboard_control, env).stop)
    if job.watches:
        from clusterkit.supervisor.edit_watcher import EditWatcher

        stack.callback(EditWatcher(job, inbox.put).stop)


def _fill_directory(
    directory: RunDirectory, run: PendingRun, backend: Backend, seed: int, past_run: PastRun | None
) -> Sequence[str]:
    """Write the files that tasks need, and kill strays; return warnings. After an error, discard a new directory."""
    prepared = run.prepared
    if past_run is not None:
        warnings = _reap(run, run.run_id)
        directory.write_info(_info(directory, prepared.job, backend.place(directory), seed, past_run.info))
        return warnings
    try:
        with reporting_shortage():
            directory.write_info(_info(directory, prepared.job, backend.place(directory), seed))
        if prepared.resume is not None:
            from clusterkit.store.checkpoints import continue_from

            with prepared.resume.shared_lock():
                continue_from(prepared.resume.used_checkpoints(), directory.checkpoints)
    except ClusterkitError:
        directory.discard()
        raise
    return _reap(run)


def _info(
    directory: RunDirectory, job: JobSpec, endpoints: Mapping[Task, str], seed: int, earlier: RunInfo | None = None
) -> RunInfo:
    engine = _engine(job)
    return RunInfo(
        run_id=directory.run_id,
        created=time.time() if earlier is None else earlier.created,
        clusterkit=__version__,
        pid=os.getpid(),
        host=socket.gethostname(),
        allocation="" if engine is None else engine.allocation_id(),
        cwd=str(Path.cwd()),
        seed=seed,
        endpoints=endpoints,
        checkpoints=str(directory.checkpoints),
        platform=platform_of(job.setup.python),
        job=without_secrets(job),  # tasks get their environment, secrets included, from the backend
    )


def _reap(run: PendingRun, own: str = "") -> list[str]:
    try:
        return [
            f"The run {run_id} had lost its supervisor and left {number_of('process', count)} behind, "
            "which clusterkit killed."
            for run_id, count in reap_strays(spared=run.starters, own=own).items()
        ]
    except ProcessesSurvived as error:
        return [f"An earlier run lost its supervisor and left processes behind. {error}"]

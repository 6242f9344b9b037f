"""`clusterkit up -d`: starts a run in the background and waits until it is ready."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from clusterkit.check.imports import imports_tensorflow, program_files, program_of
from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.cli.terminal import echo, say
from clusterkit.ledger.status import RunPhase, TaskStatus
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore, new_run_id
from clusterkit.supervisor.guardian import detach, exit_code
from clusterkit.supervisor.prepare import Display, Prepared
from clusterkit.supervisor.up import up
from clusterkit.system.files import allocate, make_private
from clusterkit.system.ports import listening
from clusterkit.system.procfs import lineage
from clusterkit.text.durations import compact
from clusterkit.text.printable import printable
from clusterkit.words.errors import RunDirectoryError
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Shape, Task, TaskState

READY_WITHIN = 5.0  # seconds; how long to wait for tasks to open their ports or report something
READY_WITHIN_IMPORTING = 60.0  # seconds; the same for tasks that import TensorFlow, perhaps many on few cores
CHECK_EVERY = 0.05  # seconds between reads of the journal while tasks start
OUTPUT_TAIL = 1 << 14  # bytes of disk space reserved for the messages of a run that fails to start
MOST_LINES = 60  # the maximum number of output lines to show if the run ends before it is ready


def up_detached(prepared: Prepared, display: Display, wait: bool, lifeline: int | None) -> int:
    """Start the run in another process and print the run id; return the command's exit code.

    Raises RunDirectoryError.
    """
    for warning in (*prepared.warnings, *prepared.doubts):
        say(warning)
    run_id = prepared.run_id or new_run_id()
    run = RunStore().run(run_id)
    early = run.path.with_name(f".{run_id}.console")
    _release_directory(run, early)
    starters = lineage(os.getpid())  # read now, since these processes may exit soon
    prepared = replace(prepared, run_id=run_id)
    pid = detach(lambda: up(prepared, display, lifeline, starters=starters), early, lifeline)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = StartupWaiter(run, prepared.job, early, pid).wait(wait)
    except KeyboardInterrupt:
        say(f"the run {run_id} continues. Stop it with `clusterkit down {run_id}`.")
        return 130
    if run.path.is_dir():
        echo(run_id)
    if run.is_live():
        say(f"follow the run with `clusterkit attach {run_id}`; stop it with `clusterkit down {run_id}`.")
    return code


def _release_directory(run: RunDirectory, early: Path) -> None:
    try:
        if run.path.exists():
            raise RunDirectoryError(f"A run {run.run_id} already exists. Choose another --run-id, or omit it.")
        make_private(run.path.parent)
        allocate(early, OUTPUT_TAIL)
        os.truncate(early, 0)
    except OSError as error:
        with suppress(OSError):
            early.unlink()
        why = f"{error.strerror} ({error.filename or early})"
        raise RunDirectoryError(
            f"Cannot use the run directory: {why}. Set CLUSTERKIT_HOME to a writable directory."
        ) from None


class StartupWaiter:
    """Waits until the tasks of a detached run are ready, or the run has ended."""

    def __init__(self, run: RunDirectory, job: JobSpec, early: Path, pid: int) -> None:
        self._run, self._job, self._early, self._pid = run, job, early, pid
        self._readiness = Readiness(job, _patience(job))

    def wait(self, for_tasks: bool) -> int:
        """Wait until the run is live and, if `for_tasks`, its tasks are ready; return the command's exit code."""
        pidfd = os.pidfd_open(self._pid)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        look: RunSnapshot | None = None
        try:
            while not poll.poll(CHECK_EVERY * 1000):
                if look is None and self._run.is_live() and self._run.job_file.exists():
                    self._adopt_console()
                    look = RunSnapshot(self._run)
                if look is not None and (not for_tasks or self._is_ready(look)):
                    return 0
        finally:
            os.close(pidfd)
        return self._end_code()

    def _adopt_console(self) -> None:
        """Move the console output into the run's directory, which must exist."""
        if self._early.exists():
            self._early.replace(self._run.console)

    def _is_ready(self, look: RunSnapshot) -> bool:
        look.refresh()
        assert look.info is not None
        if look.status.phase is RunPhase.WAITING:
            echo(f" ✘ The job failed: {printable(look.status.reason)}. Waiting for a change to its program.", err=True)
            return True
        listens = listening(look.info.endpoints, look.status.pids)
        new, silent, over = self._readiness.look(look.status.tasks, listens, time.monotonic())
        for task in new:
            echo(f" ✔ {task} is {'running' if self._job.shape is Shape.SINGLE else 'ready'}", err=True)
        if over and silent:
            echo(self._silence_text(silent), err=True)
        return over

    def _silence_text(self, silent: Sequence[Task]) -> str:
        names, but = ", ".join(map(str, silent)), "is running, but has" if len(silent) == 1 else "are running, but have"
        port = "its port" if len(silent) == 1 else "their ports"
        text = f" · {names} {but} not opened {port}, and reported nothing so far."
        if not (limit := self._job.limits.startup):
            return text
        return f"{text} After {compact(limit)} without either, the run fails: see --startup-timeout."

    def _end_code(self) -> int:
        code = exit_code(os.waitpid(self._pid, 0)[1])
        console = self._early
        if self._run.path.is_dir():
            self._adopt_console()
            console = self._run.console
        lines = console.read_text(errors="replace").splitlines()[-MOST_LINES:]
        if code and not lines:
            lines = [f"clusterkit: The run {self._run.run_id} ended with exit code {code} and printed nothing."]
        echo("".join(f"{line}\n" for line in lines), nl=False, err=True)
        self._early.unlink(missing_ok=True)
        return code


def _patience(job: JobSpec) -> float:
    program = [] if job.program.kind is ProgramKind.COMMAND else program_files(*program_of(job))
    return READY_WITHIN_IMPORTING if imports_tensorflow(program) else READY_WITHIN


class ReadinessCheck(NamedTuple):
    """The result of one inspection of the tasks.

    The `new` tasks have become ready since the previous inspection. The `silent` tasks have been running for too long
    without opening a port or reporting anything. `over` is True if no task is left to wait for.
    """

    new: tuple[Task, ...]
    silent: tuple[Task, ...]
    over: bool


@dataclass(slots=True)
class Readiness:
    """Determines whether each task of the cluster is ready, has succeeded, or has been silent for `patience` seconds.

    A task is ready when it is running and has opened its port or reported something. The task of a single-process job
    only has to be running, because no other task connects to it.
    """

    job: JobSpec
    patience: float
    _ready: set[Task] = field(default_factory=set)
    _since: dict[Task, tuple[int, float]] = field(default_factory=dict)  # running attempt, when it was first seen

    def look(self, tasks: Mapping[Task, TaskStatus], listening: Collection[Task], now: float) -> ReadinessCheck:
        """Inspect the tasks. `now` is the time in seconds, always on the same clock."""
        cluster = [tasks[task] for task in self.job.tasks if task in self.job.cluster and not tasks[task].given_up]
        ready = {of.task for of in cluster if self._is_ready(of, of.task in listening)}
        new = tuple(of.task for of in cluster if of.task in ready - self._ready)
        self._ready = ready
        silent = [of.task for of in cluster if of.task not in ready and self._is_silent(of, now)]
        rest = [of for of in cluster if of.task not in ready and of.task not in silent and not _ended_well(of)]
        return ReadinessCheck(new, tuple(silent), not rest)

    def _is_ready(self, of: TaskStatus, listens: bool) -> bool:
        return of.state is TaskState.RUNNING and (of.ready or listens or self.job.shape is Shape.SINGLE)

    def _is_silent(self, of: TaskStatus, now: float) -> bool:
        if of.state is not TaskState.RUNNING:
            self._since.pop(of.task, None)
            return False
        attempt, since = self._since.setdefault(of.task, (of.attempt, now))
        if attempt != of.attempt:
            self._since[of.task] = (of.attempt, now)
            return False
        return now - since >= self.patience


def _ended_well(of: TaskStatus) -> bool:
    return of.state is TaskState.DOWN and of.last_exit is not None and of.last_exit.ok

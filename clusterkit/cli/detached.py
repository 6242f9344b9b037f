"""`clusterkit up -d`: starts a run in the background and waits until it is ready."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import replace
from pathlib import Path

from clusterkit.cli.looking import RunSnapshot
from clusterkit.cli.terminal import echo
from clusterkit.client.directory import RunDirectory
from clusterkit.client.store import RunStore, new_run_id
from clusterkit.supervisor.detach import detach, exit_code
from clusterkit.supervisor.launch import Display, up
from clusterkit.supervisor.prepare import Prepared
from clusterkit.system.ports import listening
from clusterkit.words.errors import RunDirectoryError
from clusterkit.words.model import Shape, Task
from clusterkit.words.states import TaskState

LOOK_EVERY = 0.05  # seconds between two looks at the journal, while tasks come up
TAIL = 60  # lines of output that are shown if the run ends before it is ready


def up_detached(prepared: Prepared, display: Display, wait: bool, rope: int | None) -> int:
    """Start the run in a process of its own. Prints the run id; returns the exit code of the command.

    Raises RunDirectoryError.
    """
    run_id = prepared.run_id or new_run_id()
    run = RunStore().run(run_id)
    early = run.path.with_name(f".{run_id}.console")
    _make_way(run, early)
    pid = detach(lambda: up(replace(prepared, run_id=run_id), display, rope), early, rope)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = Beginning(run, early, pid).wait(wait)
    except KeyboardInterrupt:
        echo(f"clusterkit: the run {run_id} continues. Stop it with `clusterkit down {run_id}`.", err=True)
        return 130
    if run.path.is_dir():
        echo(run_id)
    return code


def _make_way(run: RunDirectory, early: Path) -> None:
    if run.path.exists():
        raise RunDirectoryError(f"A run {run.run_id} already exists. Choose another --run-id, or omit it.")
    try:
        run.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        early.touch(mode=0o600)
    except OSError as error:
        why = f"{error.strerror} ({error.filename})"
        raise RunDirectoryError(
            f"Cannot use the run directory: {why}. Set CLUSTERKIT_HOME to a writable directory."
        ) from None


class Beginning:
    """Waits until every task of a detached run is ready, or the run has ended."""

    def __init__(self, run: RunDirectory, early: Path, pid: int) -> None:
        self._run, self._early, self._pid = run, early, pid
        self._told: set[Task] = set()

    def wait(self, for_tasks: bool) -> int:
        """Return the exit code of the command: 0 if the run is live."""
        pidfd = os.pidfd_open(self._pid)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        look: RunSnapshot | None = None
        try:
            while not poll.poll(LOOK_EVERY * 1000):
                if look is None and self._run.is_live() and self._run.job_file.exists():
                    self._adopt_console()
                    look = RunSnapshot(self._run)
                if look is not None and (not for_tasks or self._all_ready(look)):
                    return 0
        finally:
            os.close(pidfd)
        return self._ended()

    def _adopt_console(self) -> None:
        """Move the output into the run's directory, which the run itself creates."""
        if self._early.exists():
            self._early.replace(self._run.console)

    def _all_ready(self, look: RunSnapshot) -> bool:
        look.refresh()
        assert look.info is not None
        pids = {task: status.pid for task, status in look.status.tasks.items() if status.alive and status.pid}
        listens = listening(look.info.endpoints, pids)
        single = look.info.job.shape is Shape.SINGLE
        tasks = [task for task in look.info.job.tasks if task in look.info.job.cluster]
        for task in tasks:
            status = look.status.tasks[task]
            running = status.state is TaskState.RUNNING
            if running and (status.ready or task in listens or single) and task not in self._told:
                self._told.add(task)
                echo(f" ✔ {task} is {'running' if single else 'ready'}", err=True)
            elif not running:
                self._told.discard(task)
        return len(self._told) == len(tasks)

    def _ended(self) -> int:
        code = exit_code(os.waitpid(self._pid, 0)[1])
        console = self._early
        if self._run.path.is_dir():
            self._adopt_console()
            console = self._run.console
        lines = console.read_text(errors="replace").splitlines()[-TAIL:]
        echo("".join(f"{line}\n" for line in lines), nl=False, err=True)
        self._early.unlink(missing_ok=True)
        return code

"""`clusterkit debug`: connects the terminal to a task that is waiting in the debugger."""

from __future__ import annotations

import signal
import sys
import time

import click

from clusterkit.cli.addressing import OnTasks, choose, tasks_shown
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.words.errors import ClusterkitError

LOOK_EVERY = 0.05  # seconds between checks for the job file of a starting run


@click.command(
    "debug",
    cls=OnTasks,
    examples=(("debug", "The waiting task, or the next task that stops."), ("debug worker:1", "This task only.")),
)
def command(run: str | None, tasks: tuple[str, ...]) -> None:
    """Connect this terminal to a task that is waiting in the debugger, at a breakpoint or after an exception.

    The prompt accepts pdb's commands. `c` continues the task, and this command waits for the next task that stops. `q`
    and Ctrl-D continue the task and end this command; after `q`, the task ignores further breakpoints. Ctrl-C
    interrupts a command that was entered at the prompt. If no task is waiting in the debugger, this command waits for
    one until Ctrl-C is pressed.
    """
    from clusterkit.cli.debugging import DebugConsole

    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = choose(run, finished=False)
    info = _info(chosen)
    if info is not None and info.job.hosts.count:
        raise ClusterkitError("Tasks of a job on several hosts can't be debugged.")
    sys.exit(DebugConsole(chosen, tasks_shown(chosen, tasks)).serve())


def _info(run: RunDirectory) -> RunInfo | None:
    """Return a run's info, which its supervisor writes soon after the start; None if the run ended before that."""
    while (info := run.info()) is None and run.is_live():
        time.sleep(LOOK_EVERY)
    return info

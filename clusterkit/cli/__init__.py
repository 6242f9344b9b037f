"""The command line. No logic of its own: options in, a call down, an exit code out."""

from __future__ import annotations

import os
import signal
import sys

import click

from clusterkit.cli.lazy import LazyGroup

COMMANDS = {
    "up": ("clusterkit.cli.up", "Run a cluster until its job is done."),
    "chaos": ("clusterkit.cli.chaos", "Run a job many times, broken in many ways, and check that it recovers."),
    "attach": ("clusterkit.cli.attach", "Show a live run as `up` does, until it is over."),
    "down": ("clusterkit.cli.waiting:down", "End a live run."),
    "wait": ("clusterkit.cli.waiting:wait", "Wait until a run is over; exit with its exit code."),
    "ls": ("clusterkit.cli.ls", "List the runs."),
    "ps": ("clusterkit.cli.ps", "List the tasks of a run."),
    "top": ("clusterkit.cli.top", "Show the tasks of a live run again and again."),
    "logs": ("clusterkit.cli.logs", "Show what tasks wrote."),
    "events": ("clusterkit.cli.events", "Show what happened in a run."),
    "show": ("clusterkit.cli.show", "Show how a run ended."),
    "kill": ("clusterkit.cli.acting:kill", "Signal tasks."),
    "pause": ("clusterkit.cli.acting:pause", "Stop tasks with SIGSTOP."),
    "unpause": ("clusterkit.cli.acting:unpause", "Let paused tasks go on."),
    "restart": ("clusterkit.cli.acting:restart", "End tasks and start them again."),
    "fault": ("clusterkit.cli.fault", "Break something on purpose."),
    "stacks": ("clusterkit.cli.stacks", "Show the Python stacks of tasks."),
    "profile": ("clusterkit.cli.profile", "Write a TensorBoard profile of tasks while they train."),
    "tensorboard": ("clusterkit.cli.tensorboard", "Show a run in TensorBoard."),
    "rm": ("clusterkit.cli.removing:rm", "Remove runs that are over."),
    "prune": ("clusterkit.cli.removing:prune", "Remove old runs."),
    "warm": ("clusterkit.cli.warm", "Keep TensorFlow imported between runs."),
    "config": ("clusterkit.cli.config", "Show what `up` would start, and start nothing."),
    "check": ("clusterkit.cli.check", "Read a program and say what will go wrong with it."),
    "doctor": ("clusterkit.cli.doctor", "Say what is wrong with this machine, Python and its packages."),
    "reap": ("clusterkit.cli.reap", "End processes of runs whose supervisor is gone."),
    "completion": ("clusterkit.cli.completion", "Print what makes a shell complete commands, runs and tasks."),
}


@click.group(cls=LazyGroup, commands_at=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="clusterkit", message="%(version)s")
def cli() -> None:
    """Runs a real multi-process TensorFlow cluster on this machine.

    Every option can also come from the environment: --workers of `up` is CLUSTERKIT_UP_WORKERS.
    """


def main() -> None:
    """The console script."""
    # Whatever the caller blocks or ignores: signals reach a run, and the end of its children can be waited for.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Until `up` has a run to end, Ctrl-C ends at once, with the same exit code.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    sys.exit(cli(auto_envvar_prefix="CLUSTERKIT", standalone_mode=True))

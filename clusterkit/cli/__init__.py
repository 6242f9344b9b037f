"""The command line. It has no logic of its own: options in, a call, an exit code out."""

from __future__ import annotations

import os
import signal
import sys

import click

from clusterkit.cli.lazy import LazyGroup

COMMANDS = {
    "up": ("clusterkit.cli.up", "Run a cluster until its job is done."),
    "chaos": ("clusterkit.cli.chaos", "Run a job many times, broken in many ways, and check that it recovers."),
    "attach": ("clusterkit.cli.attach", "Show a live run as `up` does, until it ends."),
    "down": ("clusterkit.cli.waiting:down", "Stop a live run."),
    "wait": ("clusterkit.cli.waiting:wait", "Wait until a run ends; exit with its exit code."),
    "ls": ("clusterkit.cli.ls", "List the runs."),
    "ps": ("clusterkit.cli.ps", "List the tasks of a run."),
    "top": ("clusterkit.cli.top", "Show the tasks of a live run, updated continuously."),
    "logs": ("clusterkit.cli.logs", "Show the output of tasks."),
    "events": ("clusterkit.cli.events", "Show the journal of a run."),
    "show": ("clusterkit.cli.show", "Show how a run ended."),
    "kill": ("clusterkit.cli.acting:kill", "Send a signal to tasks."),
    "pause": ("clusterkit.cli.acting:pause", "Pause tasks with SIGSTOP."),
    "unpause": ("clusterkit.cli.acting:unpause", "Resume paused tasks."),
    "restart": ("clusterkit.cli.acting:restart", "Restart tasks."),
    "fault": ("clusterkit.cli.fault", "Inject a fault into a live run, or end it."),
    "stacks": ("clusterkit.cli.stacks", "Show the Python stacks of tasks."),
    "profile": ("clusterkit.cli.profile", "Write a TensorBoard profile of tasks while they train."),
    "tensorboard": ("clusterkit.cli.tensorboard", "Show a run in TensorBoard."),
    "rm": ("clusterkit.cli.removing:rm", "Remove finished runs."),
    "prune": ("clusterkit.cli.removing:prune", "Remove old runs."),
    "warm": ("clusterkit.cli.warm", "Keep TensorFlow imported between runs."),
    "config": ("clusterkit.cli.config", "Show what `up` would start, without starting it."),
    "check": ("clusterkit.cli.check", "Read a program and say what will go wrong with it."),
    "doctor": ("clusterkit.cli.doctor", "Find problems with this machine, Python and its packages."),
    "reap": ("clusterkit.cli.reap", "Kill the processes of runs that lost their supervisor."),
    "completion": ("clusterkit.cli.completion", "Print the completion script for a shell."),
}


@click.group(cls=LazyGroup, commands_at=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="clusterkit", message="%(version)s")
def cli() -> None:
    """Runs a real multi-process TensorFlow cluster on this machine.

    Every option can also be set in the environment: --workers of `up` is CLUSTERKIT_UP_WORKERS.
    """


def main() -> None:
    """The console script."""
    # The caller may block signals or ignore SIGCHLD; a run has to receive them and wait for its children.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Until `up` has a run to stop, Ctrl-C exits immediately, with the same exit code.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    sys.exit(cli(auto_envvar_prefix="CLUSTERKIT", standalone_mode=True))

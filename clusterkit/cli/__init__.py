"""The command line, without logic of its own: a command turns options into a call, and the result into an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click

from clusterkit import __version__
from clusterkit.cli.help import WIDEST, LazyGroup
from clusterkit.cli.streams import exit_if_unwritten, open_streams

MARK = "CLUSTERKIT_RUN_DIR"
SECTIONS = {
    "Run": {
        "init": ("clusterkit.cli.init", "Write a job file, a program and a test to begin with."),
        "up": ("clusterkit.cli.up", "Run a cluster until its job is done."),
        "check": ("clusterkit.cli.check:check", "Find mistakes in a program, without running it."),
        "config": ("clusterkit.cli.config:config", "Print the job that `up` would run as a job file."),
        "manifests": ("clusterkit.cli.config:manifests", "Print the job as Kubernetes objects."),
        "attach": ("clusterkit.cli.attach", "Show a live run as `up` does, until it ends."),
        "wait": ("clusterkit.cli.signals:wait", "Wait until a run ends; exit with its exit code."),
        "down": ("clusterkit.cli.signals:down", "Stop a live run."),
    },
    "Inspect": {
        "ls": ("clusterkit.cli.ps:ls", "List the runs."),
        "ps": ("clusterkit.cli.ps:ps", "List the tasks of a run."),
        "top": ("clusterkit.cli.ps:top", "Show the tasks of a live run, updated continuously."),
        "logs": ("clusterkit.cli.logs:logs", "Show the output of tasks."),
        "events": ("clusterkit.cli.logs:events", "Show the journal of a run."),
        "show": ("clusterkit.cli.show:show", "Show how a run ended."),
        "compare": ("clusterkit.cli.show:compare", "Compare runs: options, speed, goodput, and a metric by step."),
        "explain": ("clusterkit.cli.explain", "Say why a run failed, and what to do about it."),
        "report": ("clusterkit.cli.report", "Write a run or a campaign to a file to keep."),
        "stacks": ("clusterkit.cli.stacks:stacks", "Show the Python stacks of tasks."),
        "debug": ("clusterkit.cli.debug", "Connect this terminal to a task that waits in the debugger."),
        "profile": ("clusterkit.cli.stacks:profile", "Write a TensorBoard profile of tasks while they train."),
        "dashboard": ("clusterkit.cli.dashboard:dashboard", "Show runs in a browser."),
        "tensorboard": ("clusterkit.cli.dashboard:tensorboard", "Show a run in TensorBoard."),
    },
    "Act": {
        "kill": ("clusterkit.cli.signals:kill", "Send a signal to tasks."),
        "pause": ("clusterkit.cli.signals:pause", "Pause tasks with SIGSTOP."),
        "unpause": ("clusterkit.cli.signals:unpause", "Resume paused tasks."),
        "restart": ("clusterkit.cli.signals:restart", "Restart tasks."),
    },
    "Examine": {
        "exam": ("clusterkit.cli.exam", "Examine a program: is it right when distributed, does it survive?"),
    },
    "Break": {
        "fault": ("clusterkit.cli.fault", "Inject a fault into a live run, or end it."),
        "chaos": ("clusterkit.cli.chaos", "Run a job many times with random faults."),
    },
    "Maintain": {
        "doctor": ("clusterkit.cli.check:doctor", "Find problems with this machine and its packages."),
        "agent": ("clusterkit.cli.agent", "Run the tasks of this host for a supervisor elsewhere."),
        "warm": ("clusterkit.cli.warm", "Keep TensorFlow imported between runs."),
        "rm": ("clusterkit.cli.remove:rm", "Remove finished runs."),
        "prune": ("clusterkit.cli.remove:prune", "Remove old runs."),
        "reap": ("clusterkit.cli.remove", "Kill the processes of runs that lost their supervisor."),
        "completion": ("clusterkit.cli.completion", "Print the completion script for a shell."),
    },
}
OTHER_NAMES = {
    **dict.fromkeys(("run", "start", "launch", "train", "submit"), "up"),
    **dict.fromkeys(("stop", "cancel", "terminate"), "down"),
    **dict.fromkeys(("list", "runs", "jobs", "history"), "ls"),
    **dict.fromkeys(("status", "tasks"), "ps"),
    **dict.fromkeys(("inspect", "describe", "info"), "show"),
    **dict.fromkeys(("log", "tail"), "logs"),
    **dict.fromkeys(("new", "create"), "init"),
    **dict.fromkeys(("ui", "web"), "dashboard"),
    "monitor": "top",
    "tb": "tensorboard",
}
USUAL = ("init", "up", "check", "down", "ps", "logs", "show", "explain", "dashboard", "kill", "fault", "doctor")
COMMANDS = [name for section in SECTIONS.values() for name in section]


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    usual=USUAL,
    others=OTHER_NAMES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    examples=(
        ("up --workers 2 --ps 1 train.py", "Run a cluster."),
        ("ps", "Look at its tasks meanwhile."),
        ("kill worker:1", "See whether training recovers."),
    ),
)
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """Run a real multi-process TensorFlow cluster on this machine.

    Every option can also be set in the environment: --workers of `up` is CLUSTERKIT_UP_WORKERS.
    """


def _drop_mark() -> None:
    """Restart this process without the mark of a run, if the command was started from within that run.

    `clusterkit reap` finds the processes of a lost run by this mark. It reads the mark from /proc, which shows the
    environment with which a process was started.
    """
    if MARK in os.environ and Path(sys.argv[0]).name in ("clusterkit", "__main__.py"):
        del os.environ[MARK]
        with suppress(OSError):
            os.execv(sys.executable, sys.orig_argv)


def main() -> None:
    """Run the command line of this process: the entry point of the console script."""
    _drop_mark()
    run(sys.argv[1:])


def run(words: Sequence[str], asked: object = None) -> NoReturn:
    """Run a command and exit. `asked` is the `ApiRequest` of a Python process that started this `up`."""
    # The caller may block signals or ignore SIGCHLD; a run has to receive them and wait for its children.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Until `up` has a run to stop, Ctrl-C exits immediately, with the usual exit code 130.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    open_streams()
    with exit_if_unwritten():
        name = "clusterkit" if sys.argv[0] == "-c" else None  # started by a Python process with `-c`
        sys.exit(cli(words, name, auto_envvar_prefix="CLUSTERKIT", obj=asked))

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
        "init": ("init", "Write a job file, a program and a test to begin with."),
        "up": ("up", "Run a cluster until its job is done."),
        "check": ("check:check", "Find mistakes in a program, without running it."),
        "config": ("config:config", "Print, as a job file, the job that `up` would run."),
        "manifests": ("config:manifests", "Print the job as Kubernetes objects."),
        "attach": ("attach", "Show a live run as `up` does, until it ends."),
        "wait": ("signals:wait", "Wait until a run ends; exit with its exit code."),
        "down": ("signals:down", "Stop a live run."),
    },
    "Inspect": {
        "ls": ("ps:ls", "List the runs."),
        "ps": ("ps:ps", "List the tasks of a run."),
        "top": ("ps:top", "Show the tasks of a live run, updated continuously."),
        "logs": ("logs:logs", "Show the output of tasks."),
        "events": ("logs:events", "Show the journal of a run."),
        "show": ("show:show", "Show how a run ended."),
        "compare": ("show:compare", "Compare runs: options, speed, goodput, and a metric by step."),
        "explain": ("explain", "Say why a run failed, and what to do about it."),
        "report": ("report", "Write a run or a campaign to one file."),
        "stacks": ("stacks:stacks", "Show the Python stacks of tasks."),
        "debug": ("debug", "Connect this terminal to a task that is waiting in the debugger."),
        "profile": ("stacks:profile", "Write a TensorBoard profile of tasks while they train."),
        "dashboard": ("dashboard:dashboard", "Show runs in a browser."),
        "tensorboard": ("dashboard:tensorboard", "Show a run in TensorBoard."),
    },
    "Act": {
        "kill": ("signals:kill", "Send a signal to tasks."),
        "pause": ("signals:pause", "Pause tasks with SIGSTOP."),
        "unpause": ("signals:unpause", "Resume paused tasks."),
        "restart": ("signals:restart", "Restart tasks."),
    },
    "Examine": {
        "exam": ("exam", "Examine a program: is it correct when distributed, and does it survive faults?"),
    },
    "Break": {
        "fault": ("fault", "Inject faults into a live run, or end them."),
        "chaos": ("chaos", "Run a job many times with random faults."),
    },
    "Maintain": {
        "doctor": ("check:doctor", "Find problems with this machine and its packages."),
        "agent": ("agent", "Run the tasks of this host for a supervisor on another host."),
        "warm": ("warm", "Keep TensorFlow imported between runs."),
        "rm": ("remove:rm", "Remove finished runs."),
        "prune": ("remove:prune", "Remove old runs."),
        "reap": ("remove", "Kill the processes of runs that lost their supervisor."),
        "completion": ("completion", "Print the completion script for a shell."),
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
        ("ps", "List its tasks while it runs."),
        ("kill worker:1", "See whether training recovers."),
    ),
)
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """Run a real multi-process TensorFlow cluster on this machine.

    Every option can also be set by an environment variable: `up --workers` is CLUSTERKIT_UP_WORKERS.
    """


def _drop_mark() -> None:
    """If a run started this process, restart the process without the variable that marks the processes of the run.

    `clusterkit reap` finds the processes of a lost run by this environment variable. The command reads the variable
    from /proc, which shows only the initial environment of a process.
    """
    if MARK in os.environ and Path(sys.argv[0]).name in ("clusterkit", "__main__.py"):
        del os.environ[MARK]
        with suppress(OSError):
            os.execv(sys.executable, sys.orig_argv)


def main() -> None:
    """Run the command line of this process."""
    _drop_mark()
    run(sys.argv[1:])


def run(words: Sequence[str], asked: object = None) -> NoReturn:
    """Run a command and exit. If a Python process started this `up`, `asked` is the `ApiRequest` of that process."""
    # A run has to receive signals and wait for its children, even if the caller blocks signals or ignores SIGCHLD.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Until `up` has a run to stop, Ctrl-C exits immediately, with the usual exit code 130.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    open_streams()
    with exit_if_unwritten():
        name = "clusterkit" if sys.argv[0] == "-c" else None  # started by a Python process with `-c`
        sys.exit(cli(words, name, auto_envvar_prefix="CLUSTERKIT", obj=asked))

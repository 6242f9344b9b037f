"""The command line. No logic of its own: options in, a call down, an exit code out."""

from __future__ import annotations

import os
import signal
import sys

import click

from clusterkit.cli.lazy import LazyGroup

COMMANDS = {
    "up": ("clusterkit.cli.up", "Run a cluster until its job is done."),
    "config": ("clusterkit.cli.config", "Show what `up` would start, and start nothing."),
    "reap": ("clusterkit.cli.reap", "End processes of runs whose supervisor is gone."),
}


@click.group(cls=LazyGroup, commands_at=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="clusterkit", message="%(version)s")
def cli() -> None:
    """Runs a real multi-process TensorFlow cluster on this machine.

    Every option can also come from the environment: --workers of `up` is CLUSTERKIT_UP_WORKERS.
    """


def main() -> None:
    """The console script."""
    # Until `up` has a run to end, Ctrl-C ends at once, with the same exit code.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    sys.exit(cli(auto_envvar_prefix="CLUSTERKIT", standalone_mode=True))

"""`clusterkit up`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from clusterkit.cli.errors import told
from clusterkit.cli.options import given, job_options


@click.command("up", context_settings={"allow_interspersed_args": False})
@job_options
def command(
    job_file: str | None,
    only: tuple[str, ...],
    all_output: bool,
    log_level: str,
    quiet: bool,
    color: bool | None,
    **values: Any,
) -> None:
    """Run PROGRAM as a cluster until its job is done.

    Chief, workers, parameter servers and evaluator are processes of this machine, each with its TF_CONFIG. A task
    that fails is started again with what TensorFlow needs restarted beside it; Ctrl-C ends everything.
    """
    from clusterkit.supervisor.launch import Display, up
    from clusterkit.supervisor.prepare import prepare
    from clusterkit.views.console import Show
    from clusterkit.views.narrate import Level

    with told():
        prepared = prepare(given(values), job_file, only)
    if color is None:
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    show = Show(tasks=not quiet, only=frozenset(only), noise=all_output, color=color)
    level = Level.WARNING if quiet else Level[log_level.upper()]
    sys.exit(up(prepared, Display(show, level)))

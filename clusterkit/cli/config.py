"""`clusterkit config`."""

from __future__ import annotations

import click

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.help import Command, option
from clusterkit.cli.options import given, job_options, program_argument
from clusterkit.cli.terminal import echo


@click.command(
    "config",
    cls=Command,
    context_settings={"allow_interspersed_args": False},
    examples=[("config --workers 2 train.py > job.toml", "")],
)
@job_options()
@program_argument
@option(
    "--show-secrets",
    is_flag=True,
    help="Show variables named like TOKEN, SECRET, PASSWORD, KEY or CREDENTIAL.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool, show_secrets: bool, **values: object) -> None:
    """Show the resolved job, and every task's TF_CONFIG, command and environment. Starts nothing."""
    from clusterkit.supervisor.prepare import prepare
    from clusterkit.supervisor.resolve import resolved

    with exit_on_error():
        prepared = prepare(given(values))
        text = resolved(prepared, show_secrets, as_json)
    for warning in prepared.warnings:
        echo(f"clusterkit: {warning}", err=True)
    echo(text, nl=False)

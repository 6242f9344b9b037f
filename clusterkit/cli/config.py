"""`clusterkit config`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterkit.cli.help import option
from clusterkit.cli.job_command import JobCommand
from clusterkit.cli.options import given, job_options, program_argument
from clusterkit.cli.params import json_option
from clusterkit.cli.terminal import echo, exit_on_error, say

if TYPE_CHECKING:
    from clusterkit.supervisor.prepare import Prepared


@click.command(
    "config",
    cls=JobCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        ("config --workers 2 train.py > job.toml", "Write a job file. Then: clusterkit up -f job.toml"),
        ("config -f job.toml --tasks", "What each task gets."),
    ),
)
@job_options()
@program_argument
@option("--tasks", is_flag=True, help="Add the command, TF_CONFIG and environment of every task, as comments.")
@option(
    "--show-secrets",
    is_flag=True,
    help="Show what is hidden: the values of variables, and credentials in URLs.",
)
@json_option
def command(as_json: bool, tasks: bool, show_secrets: bool, **values: object) -> None:
    """Print the job as a job file, with absolute paths, that `up -f` accepts. Starts nothing.

    With --json, print everything that is known of the job and of its tasks. The batch script that `up` submits to an
    engine is added, as comments.
    """
    from clusterkit.supervisor.prepare import gather, prepare
    from clusterkit.supervisor.resolve import resolved_file, resolved_json
    from clusterkit.words.secrets import without_secrets

    with exit_on_error():
        gathered = gather(given(values))
        prepared = prepare(gathered)
        if as_json:
            text = resolved_json(prepared, show_secrets)
        else:
            text = resolved_file(prepared, gathered.options, show_secrets, tasks) + _batch_script(prepared)
    hides = not (show_secrets or as_json) and without_secrets(prepared.job) != prepared.job
    hidden = ["Something is hidden in this job file. With --show-secrets it is complete."] if hides else []
    for warning in (*prepared.warnings, *hidden):
        say(warning)
    echo(text, nl=False)


def _batch_script(prepared: Prepared) -> str:
    """Return the batch script that `up` would submit, as comments. Raises BadJob if the engine can't run the job."""
    from clusterkit.engines.base import engine_named
    from clusterkit.store.store import new_run_id
    from clusterkit.text.printable import printable

    job = prepared.job
    script = engine_named(job.hosts.engine).script(job, prepared.run_id or new_run_id()) if job.hosts.count else ""
    lines = ["", "What `up` submits:", "", *script.splitlines()] if script else []
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)

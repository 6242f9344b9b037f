"""`clusterkit doctor`."""

from __future__ import annotations

import sys
from typing import Any

import click

from clusterkit.cli.errors import told
from clusterkit.cli.options import given, job_options
from clusterkit.cli.params import echo_json, json_option
from clusterkit.cli.terminal import echo, use_color


@click.command("doctor", context_settings={"allow_interspersed_args": False})
@job_options
@click.option("--deep", is_flag=True, help="Run a small job too, of two workers: ten to thirty seconds.")
@json_option
def command(job_file: str | None, as_json: bool, deep: bool, **values: Any) -> None:
    """Look at Python, its packages, the machine and the environment, and say what is wrong and what to do.

    With options of `up`, a program or a job file, also whether there is enough of everything for that job.
    Exits with 1 where something is wrong.
    """
    from clusterkit.rules.doctor import diagnose, is_well
    from clusterkit.supervisor.checkup import look
    from clusterkit.views.doctor import as_json as document
    from clusterkit.views.doctor import as_text

    asked = values.pop("color")
    for name in ("only", "all_output", "log_level", "quiet"):
        values.pop(name)
    with told():
        findings = diagnose(look(given(values), job_file, deep))
    color = use_color(asked)
    if as_json:
        echo_json(document(findings))
    else:
        echo(as_text(findings, color), nl=False, color=color)
    sys.exit(not is_well(findings))

"""`clusterkit check`."""

from __future__ import annotations

import sys

import click

from clusterkit.cli.help import json_option
from clusterkit.cli.job_command import JobCommand
from clusterkit.cli.options import given, job_options, program_argument
from clusterkit.cli.terminal import echo, echo_json, exit_on_error

_JOB = (  # the options that change what the rules find
    *("file", "module", "workers", "ps", "chief", "evaluator", "env", "cwd", "python", "restart_scope"),
    *("convention", "tf_config", "servers", "keras", "patches"),
)


@click.command(
    "check",
    cls=JobCommand,
    examples=[("check --workers 2 train.py", "As a job with two workers."), ("check -f job.toml", "")],
)
@job_options(*_JOB)
@program_argument
@json_option
def command(as_json: bool, **values: object) -> None:
    """Find mistakes in PROGRAM for this job. Starts nothing, and imports nothing of it.

    Exits with 1 if it finds an error: every run of the job fails there. `up` refuses only invalid Python.
    """
    from clusterkit.check.findings import Severity, as_text
    from clusterkit.check.findings import as_json as document
    from clusterkit.check.reading import findings_of
    from clusterkit.supervisor.prepare import prepare

    with exit_on_error():
        job = prepare(given(values), must_parse=False).job
        findings = findings_of(job)
    if as_json:
        echo_json(document(str(job.program), findings))
    else:
        echo(as_text(findings), nl=False)
    sys.exit(any(finding.severity is Severity.ERROR for finding in findings))

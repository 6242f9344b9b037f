"""`clusterkit check`."""

from __future__ import annotations

import sys
from typing import Any

import click

from clusterkit.cli.errors import told
from clusterkit.cli.options import given, job_options
from clusterkit.cli.params import echo_json, json_option
from clusterkit.cli.terminal import echo


@click.command("check", context_settings={"allow_interspersed_args": False})
@job_options
@json_option
def command(job_file: str | None, as_json: bool, **values: Any) -> None:
    """Read PROGRAM and say what will go wrong with it in this job. Starts nothing, and imports nothing of it.

    An error is certain to fail: `up` stops for it too, unless --force is given. A warning is for you to judge.
    Exits with 1 where there is an error.
    """
    from clusterkit.supervisor.checking import findings_of
    from clusterkit.supervisor.prepare import prepare
    from clusterkit.views.findings import as_json as document
    from clusterkit.views.findings import as_text
    from clusterkit.words.findings import Severity

    for name in ("only", "all_output", "log_level", "quiet", "color"):
        values.pop(name)
    with told():
        job = prepare({**given(values), "force": True}, job_file).job
        findings = findings_of(job)
    if as_json:
        echo_json(document(str(job.program), findings))
    else:
        echo(as_text(findings), nl=False)
    sys.exit(any(finding.severity is Severity.ERROR for finding in findings))

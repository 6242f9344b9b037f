"""`clusterkit check` and `doctor`: find what is wrong with a program, and with this machine, before a run."""

from __future__ import annotations

import sys

import click

from clusterkit.cli.help import Command, json_option, option
from clusterkit.cli.options import JobCommand, given, job_options, program_argument
from clusterkit.cli.terminal import color_option, echo, echo_json, use_color


@click.command(
    "check",
    cls=JobCommand,
    examples=[("check --workers 2 train.py", "As a job with two workers."), ("check -f job.toml", "")],
)
@job_options()
@program_argument
@json_option
def check(as_json: bool, **values: object) -> None:
    """Find mistakes in PROGRAM when it is run as this job. The program is neither started nor imported.

    Takes the job options of `up`. The exit code is 1 if there is an error, that is, a line at which every run of the
    job fails. `up` does not start a program with an error, except with --no-check.
    """
    from clusterkit.check.findings import Severity, as_text
    from clusterkit.check.findings import as_json as document
    from clusterkit.check.reading import findings_of
    from clusterkit.supervisor.prepare import prepare

    job = prepare(given(values), must_parse=False, starts=False).job
    findings = findings_of(job)
    if as_json:
        echo_json(document(str(job.program), findings))
    else:
        echo(as_text(findings), nl=False)
    sys.exit(any(finding.severity is Severity.ERROR for finding in findings))


@click.command(
    "doctor",
    cls=Command,
    examples=(
        ("doctor", "Examine this machine."),
        ("doctor --workers 8 --ps 2", "Also say whether such a job fits."),
        ("doctor --python ~/venv/bin/python", "With the packages of another interpreter."),
    ),
)
@job_options("file", "workers", "ps", "chief", "evaluator", "env", "cwd", "python", "network",
             "cpus_per_task", "gpus_per_task")  # fmt: skip
@option("--deep", is_flag=True, help="Also run a small job with two workers, which takes ten to thirty seconds.")
@json_option
@color_option
def doctor(as_json: bool, deep: bool, color: bool | None, **values: object) -> None:
    """Examine Python, its packages, the machine and the environment, and say what to do if something is wrong.

    With job options or a job file, it also says whether the machine has enough resources for the job.
    The exit code is 1 if something is wrong.
    """
    from clusterkit.doctor.diagnosis import Rating, as_text
    from clusterkit.doctor.diagnosis import as_json as document
    from clusterkit.doctor.facts import collect_facts
    from clusterkit.doctor.rules import diagnose
    from clusterkit.supervisor.prepare import gather

    found = diagnose(collect_facts(gather(given(values)), deep))
    is_colored = use_color(color)
    if as_json:
        echo_json(document(found))
    else:
        echo(as_text(found, is_colored), nl=False, color=is_colored)
    sys.exit(any(one.grade is Rating.WRONG for one in found))

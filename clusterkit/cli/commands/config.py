"""`clusterkit config` and `manifests`: print the job, as a job file and as Kubernetes objects."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

import click

from clusterkit import __version__
from clusterkit.cli.help import json_option, option
from clusterkit.cli.options import JobCommand, given, job_options, program_argument
from clusterkit.cli.terminal import echo, say
from clusterkit.supervisor.prepare import Prepared, gather, prepare


@click.command(
    "config",
    cls=JobCommand,
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
    help="Show what is otherwise hidden: values of environment variables and secret arguments, credentials.",
)
@json_option
def config(as_json: bool, tasks: bool, show_secrets: bool, **values: object) -> None:
    """Print the job as a job file with absolute paths, which `up -f` accepts. Starts nothing.

    With --json, print everything that is known about the job and its tasks. If `up` would submit a batch script to an
    engine, the script is appended as comments.
    """
    from clusterkit.supervisor.resolve import resolved_file, resolved_json
    from clusterkit.words.secrets import without_secrets

    gathered = gather(given(values))
    prepared = prepare(gathered, starts=False)
    if as_json:
        text = resolved_json(prepared, show_secrets)
    else:
        text = resolved_file(prepared, gathered.options, show_secrets, tasks) + _batch_script(prepared)
    hides = not (show_secrets or as_json) and without_secrets(prepared.job) != prepared.job
    hidden = ["Some values are hidden in this job file. To print all values, use --show-secrets."] if hides else []
    for warning in (*prepared.warnings, *prepared.doubts, *hidden):
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


@click.command(
    "manifests",
    cls=JobCommand,
    examples=(
        ("manifests --workers 4 -o job.yaml train.py", "A JobSet. Then: kubectl apply -f job.yaml"),
        ("manifests --hosts 2 --claim runs --no-secret -f job.toml > job.yaml", "Without the run's key, for a "
         "repository. A comment says how to create the key."),
    ),
)  # fmt: skip
@option(
    "--image",
    metavar="NAME",
    default=f"tf-clusterkit:{__version__}",
    help="The image of all pods, which contains the program.",
)
@option("--namespace", metavar="NAME", help="The namespace of the objects.", show_default="kubectl's")
@option("--storage", metavar="CLASS", help="The storage class of the volume, which has to support ReadWriteMany.")
@option("--storage-size", metavar="SIZE", help="The size of the volume.", show_default="10Gi")
@option("--claim", metavar="NAME", help="An existing volume claim to use instead of a new one.")
@option("--memory", metavar="SIZE", help="Memory of each pod that runs tasks.")
@option("--env-from", metavar="SECRET", multiple=True, help="A Secret whose keys become variables in all pods.")
@click.option("--no-secret", "secret", flag_value="out", default="too", help="Omit the Secret with the run's key.")
@click.option("--only-secret", "secret", flag_value="only", help="Print only this Secret, for the run of --run-id.")
@option("-o", "--output", metavar="FILE", help="Write to a file that only you can read.")
@job_options()
@program_argument
def manifests(secret: str, output: str | None, **values: Any) -> None:
    """Print the job as Kubernetes objects. Starts nothing, and contacts no cluster.

    The JobSet has one pod in which `up` supervises the run, and pods with agents, which start the tasks. --hosts is
    the number of pods with agents; the default is one for each training task except a coordinator. PROGRAM and all
    other paths are paths inside the image. The objects contain the run's key, unless --no-secret is given.
    """
    from clusterkit.engines.kubernetes.manifest import ManifestFlags, Secret
    from clusterkit.engines.kubernetes.printed import key_request, key_text, manifest_from, manifest_text, write_private

    flags = {field.name: values[field.name] for field in fields(ManifestFlags) if field.name in values}
    own = ManifestFlags(**flags, secret=Secret(secret))
    seen = output is None and sys.stdout.isatty()
    job = gather(given(values))
    is_key = own.secret is Secret.ONLY
    text = key_text(key_request(job, own), seen) if is_key else manifest_text(manifest_from(job, own), seen)
    if output is None:
        echo(text, nl=False)
    else:
        write_private(output, text)

"""`clusterkit manifests`."""

from __future__ import annotations

import sys
from typing import cast

import click

from clusterkit import __version__
from clusterkit.cli.help import option
from clusterkit.cli.job_command import JobCommand
from clusterkit.cli.options import given, job_options, program_argument
from clusterkit.cli.terminal import echo, exit_on_error


@click.command(
    "manifests",
    cls=JobCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        ("manifests --workers 4 -o job.yaml train.py", "A JobSet. Then: kubectl apply -f job.yaml"),
        ("manifests --hosts 2 --claim runs --no-secret -f job.toml > job.yaml", "Without the run's key, for a "
         "repository. A comment says how to make it."),
    ),
)  # fmt: skip
@option(
    "--image",
    metavar="NAME",
    default=f"tf-clusterkit:{__version__}",
    help="The image of all pods, with the program in it.",
)
@option("--namespace", metavar="NAME", help="The namespace of the objects.", show_default="kubectl's")
@option("--storage", metavar="CLASS", help="The storage class of the volume, which has to support ReadWriteMany.")
@option("--storage-size", metavar="SIZE", help="The size of the volume.", show_default="10Gi")
@option("--claim", metavar="NAME", help="A volume claim that exists, instead of a new one.")
@option("--memory", metavar="SIZE", help="Memory of each pod that runs tasks.")
@option("--env-from", metavar="SECRET", multiple=True, help="A Secret whose keys are variables of all pods.")
@click.option("--no-secret", "secret", flag_value="out", default="too", help="Leave out the Secret of the run's key.")
@click.option("--only-secret", "secret", flag_value="only", help="Print only that Secret, for the run of --run-id.")
@option("-o", "--output", metavar="FILE", help="Write to a file that only you can read.")
@job_options()
@program_argument
def command(
    image: str,
    namespace: str | None,
    storage: str | None,
    storage_size: str | None,
    claim: str | None,
    memory: str | None,
    env_from: tuple[str, ...],
    secret: str,
    output: str | None,
    **values: object,
) -> None:
    """Print the job as Kubernetes objects. Starts nothing, and talks to no cluster.

    A JobSet has a pod in which `up` supervises the run, and pods with an agent each, which start the tasks: --hosts
    many, or one for each task that computes. PROGRAM and all paths are those of the image. The documents contain the
    run's key: see --no-secret.
    """
    from clusterkit.engines.kubernetes.manifest import ManifestFlags, Secret
    from clusterkit.engines.kubernetes.printed import key_request, key_text, manifest_from, manifest_text, write_private
    from clusterkit.supervisor.prepare import gather

    hosts = cast(int | None, values.get("hosts"))
    own = ManifestFlags(image, namespace, hosts, storage, storage_size, claim, memory, env_from, Secret(secret))
    seen = output is None and sys.stdout.isatty()
    with exit_on_error():
        job = gather(given(values))
        is_key = own.secret is Secret.ONLY
        text = key_text(key_request(job, own), seen) if is_key else manifest_text(manifest_from(job, own), seen)
        if output is not None:
            write_private(output, text)
    if output is None:
        echo(text, nl=False)

"""Turns flags and a job file into the text that `clusterkit manifests` prints; raises one error with all problems."""

from __future__ import annotations

import datetime
import os
import stat
from dataclasses import replace
from typing import cast

from clusterkit.backends.link.certificate import make_certificate
from clusterkit.engines.kubernetes import manifest
from clusterkit.engines.kubernetes.documents import documents, head_lines, key_secret, secrets_in, yaml_text
from clusterkit.engines.kubernetes.manifest import Manifest, ManifestFlags, RunMetadata, Secret
from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.job.spec import MOST_TASKS, describe
from clusterkit.store.store import new_run_id
from clusterkit.text.spelling import listed
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.job import JobSpec


def manifest_from(gathered: GivenOptions, flags: ManifestFlags) -> Manifest:
    """Check everything that can be checked without the files in the image; return the manifest. Raises BadJob."""
    # The default number of hosts differs from the default for a run on one machine.
    asked_for = replace(flags, hosts=flags.hosts and min(flags.hosts, MOST_TASKS))
    hosts = max(1, manifest.hosts_of(_with_few_tasks(gathered)[0], asked_for))
    on_hosts = gathered._replace(options=cast(JobOptions, {**gathered.options, "hosts": hosts}))
    job, problems = _with_few_tasks(on_hosts)
    name = gathered.options.get("run_id") or f"run-{new_run_id()}"
    problems += [
        *manifest.name_problems(name, manifest.agents_of(job, flags)),
        *manifest.problems_of(job, gathered.options, flags),
    ]
    if problems:
        raise BadJob(problems)
    options = {key: value for key, value in gathered.options.items() if key != "run_id"}
    return Manifest(name, job, cast(JobOptions, options), flags)


def _with_few_tasks(gathered: GivenOptions) -> tuple[JobSpec, list[str]]:
    """Return the job and its problems. If task counts are invalid, reduce them to 1, since they may be huge."""
    job, problems, clear = describe(gathered)
    return job if clear else replace(job, counts={kind: min(count, 1) for kind, count in job.counts.items()}), problems


def key_request(gathered: GivenOptions, flags: ManifestFlags) -> RunMetadata:
    """Check the flags for a Secret with a run's key, and return the run's metadata; ignore the job. Raises BadJob."""
    name = gathered.options.get("run_id")
    problems = [*manifest.flag_problems(flags)]
    problems += ["--only-secret needs the run's id: --run-id ID."] if name is None else manifest.name_problems(name, 1)
    if name is None or problems:
        raise BadJob(problems)
    return RunMetadata(name, flags.namespace)


class CannotWriteManifest(ClusterkitError):
    """The file for the manifest can't be written."""

    exit_code = 2


def manifest_text(manifest: Manifest, on_terminal: bool) -> str:
    """Return the text of all documents of a run. Raises BadJob if a secret in them would be shown `on_terminal`."""
    if on_terminal and (found := secrets_in(manifest)):
        raise BadJob([_refuse_terminal(listed(found))])
    has_key = manifest.flags.secret is Secret.TOO
    return yaml_text(head_lines(manifest), documents(manifest, _new_key(manifest.name) if has_key else ""))


def key_text(place: RunMetadata, on_terminal: bool) -> str:
    """Return only the Secret with a run's key. Raises BadJob if the text would be shown `on_terminal`."""
    if on_terminal:
        raise BadJob([_refuse_terminal("the run's key")])
    return yaml_text(
        ["SECRET: the run's key. Keep it readable for you alone."], [key_secret(place, _new_key(place.run))]
    )


def write_private(path: str, text: str) -> None:
    """Write a file, new or existing, that only its owner can read. Raises CannotWriteManifest."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # leave special files such as /dev/null unchanged
                os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise CannotWriteManifest(f"{path} can't be written: {error.strerror}.") from None


def _new_key(run: str) -> str:
    return make_certificate(run, datetime.datetime.now(datetime.UTC)).decode("ascii")


def _refuse_terminal(what: str) -> str:
    return f"{what[0].upper()}{what[1:]} would be shown on this terminal. Write it to a file with -o FILE, or pipe it."

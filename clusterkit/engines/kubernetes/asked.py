"""From what was gathered from flags and job file to a manifest, or to one error with every problem."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from clusterkit.engines.kubernetes.manifest import Flags, Manifest, Place, agents_of, hosts_of
from clusterkit.engines.kubernetes.names import flag_problems, name_problems
from clusterkit.engines.kubernetes.rules import problems_of
from clusterkit.job.options import Gathered, JobOptions
from clusterkit.job.spec import MOST, describe
from clusterkit.store.store import new_run_id
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec


def asked(gathered: Gathered, flags: Flags) -> Manifest:
    """Check everything that can be known without the image, whose files are not here. Raises BadJob."""
    job, problems = _countable(_on_hosts(gathered, flags))
    name = gathered.options.get("run_id") or f"run-{new_run_id()}"
    problems += [*name_problems(name, agents_of(job, flags)), *problems_of(job, gathered.options, flags)]
    if problems:
        raise BadJob(problems)
    options = {key: value for key, value in gathered.options.items() if key != "run_id"}
    return Manifest(name, job, cast(JobOptions, options), flags)


def _countable(gathered: Gathered) -> tuple[JobSpec, list[str]]:
    """The job and its problems; with few tasks if they are among the problems, since there may be too many to list."""
    job, problems, clear = describe(gathered)
    return job if clear else replace(job, counts={kind: min(count, 1) for kind, count in job.counts.items()}), problems


def _on_hosts(gathered: Gathered, flags: Flags) -> Gathered:
    """With the number of agents, which is another one than on one machine if it is not given."""
    hosts = max(1, hosts_of(_countable(gathered)[0], replace(flags, hosts=flags.hosts and min(flags.hosts, MOST))))
    return gathered._replace(options=cast(JobOptions, {**gathered.options, "hosts": hosts}))


def asked_key(gathered: Gathered, flags: Flags) -> Place:
    """Check what the Secret of a run's key depends on, which is not the job. Raises BadJob."""
    name = gathered.options.get("run_id")
    problems = [*flag_problems(flags)]
    problems += ["--only-secret needs the run's id: --run-id ID."] if name is None else name_problems(name, 1)
    if name is None or problems:
        raise BadJob(problems)
    return Place(name, flags.namespace)

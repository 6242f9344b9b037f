"""The job and the name of a campaign or an exam, made from options and checked as `up` checks them."""

from __future__ import annotations

from clusterkit.chaos.trial import JobTemplate
from clusterkit.job.options import GivenOptions
from clusterkit.store.store import new_run_id
from clusterkit.supervisor.prepare import prepare
from clusterkit.words.errors import BadJob

LONGEST_NAME = 40  # characters; run ids begin with this name


def template_from(options: GivenOptions) -> tuple[JobTemplate, tuple[str, ...]]:
    """Check the options; return the job and warnings for the user. Raises BadJob."""
    prepared = prepare(options)
    if prepared.job.watches:
        raise BadJob(["--watch is not for series of runs: one that fails would wait for a change of its program."])
    return JobTemplate(prepared.job, options.options), prepared.warnings


def campaign_name(asked: JobTemplate, kind: str) -> str:
    """Return the name of a campaign or an exam. The ids of its runs begin with this name. Raises BadJob."""
    name = str(asked.options.get("run_id") or f"{kind}-{new_run_id()}")
    if len(name) > LONGEST_NAME:
        raise BadJob([f"--run-id has {len(name)} letters; the names of its runs need some more. Use {LONGEST_NAME}."])
    return name

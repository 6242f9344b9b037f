"""Environment variables whose values are nobody's business but the tasks'."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from clusterkit.words.job import JobSpec, Setup

HIDDEN = "***"
_SECRET = re.compile("TOKEN|SECRET|PASSWORD|PASSWD|KEY|CREDENTIAL", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether a variable of that name is likely to hold a password or the like."""
    return _SECRET.search(name) is not None


def masked(env: Mapping[str, str]) -> dict[str, str]:
    """The variables, without the values of those that look like secrets."""
    return {name: HIDDEN if looks_secret(name) else value for name, value in env.items()}


def without_secrets(job: JobSpec) -> JobSpec:
    """The job as it can be stored and shown."""
    return replace(
        job,
        setup=_without_secrets(job.setup),
        setups={kind: _without_secrets(setup) for kind, setup in job.setups.items()},
    )


def _without_secrets(setup: Setup) -> Setup:
    return replace(setup, env=masked(setup.env))

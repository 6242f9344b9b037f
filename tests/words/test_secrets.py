"""What of a job's environment is stored and shown."""

from __future__ import annotations

import pytest

from clusterkit.words import wire
from clusterkit.words.model import ProgramKind
from clusterkit.words.secrets import looks_secret, without_secrets
from tests.histories import build_job


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("DB_PASSWORD", True),
        ("GITHUB_TOKEN", True),
        ("AWS_SECRET_ACCESS", True),
        ("api_key", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("SSH_PASSWD", True),
        ("OMP_NUM_THREADS", False),
        ("TF_USE_LEGACY_KERAS", False),
        ("PATH", False),
    ],
)
def test_what_looks_like_a_secret(name: str, is_secret: bool) -> None:
    """By its name, in capitals or not."""
    assert looks_secret(name) is is_secret


def test_a_job_without_its_secrets() -> None:
    """Those of one task type too; everything else is as it was."""
    options = {
        "program": "train.py",
        "workers": 2,
        "env": {"DB_PASSWORD": "hush", "LEVEL": "3"},
        "task": {"worker": {"env": {"API_KEY": "hush", "A": "1"}, "cwd": "."}},
    }
    job = build_job(options, ProgramKind.SCRIPT)
    shown = wire.encode(without_secrets(job))
    assert shown["setup"]["env"] == {"DB_PASSWORD": "***", "LEVEL": "3"}
    assert shown["setups"]["worker"] == {"env": {"API_KEY": "***", "A": "1"}, "cwd": ".", "args": None, "python": None}
    whole = wire.encode(job)
    assert {key for key in whole if whole[key] != shown[key]} == {"setup", "setups"}

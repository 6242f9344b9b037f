"""Where an option comes from: the command line wins over the environment and the job file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_bad_input import ROLES, attempt

pytestmark = [pytest.mark.process, pytest.mark.timeout(60), pytest.mark.slow]


def test_counts_come_from_the_environment_too(tmp_path: Path) -> None:
    """CLUSTERKIT_UP_WORKERS is --workers; the flag wins."""
    from_env = attempt([ROLES], tmp_path, CLUSTERKIT_UP_WORKERS="3")
    assert from_env.returncode == 0
    assert "3 worker" in from_env.stdout
    assert "2 worker" in attempt(["--workers", "2", ROLES], tmp_path, CLUSTERKIT_UP_WORKERS="3").stdout
    refused = attempt([ROLES], tmp_path, CLUSTERKIT_UP_WORKERS="many")
    assert "'many' is not a valid integer" in refused.stderr
    assert refused.returncode == 2


def test_flags_win_over_the_job_file(tmp_path: Path) -> None:
    """What the flags do not say comes from the file; a program given anew has its own arguments."""
    (tmp_path / "job.toml").write_text(f"program = '{ROLES}'\nargs = ['--steps', '3']\nworkers = 3\n")
    ran = attempt(["-f", "job.toml", "--workers", "2"], tmp_path)
    assert (ran.returncode, "2 worker" in ran.stdout, "from step 0 to 3" in ran.stdout) == (0, True, True)
    ran = attempt(["-f", "job.toml", ROLES, "--steps", "4"], tmp_path)
    assert (ran.returncode, "3 worker" in ran.stdout, "from step 0 to 4" in ran.stdout) == (0, True, True)

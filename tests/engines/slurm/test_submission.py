"""Submitting a run to commands that play Slurm's: what is left of one that Slurm refuses."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.engines.slurm.answers import SlurmError
from clusterkit.engines.slurm.submission import submission
from clusterkit.store.cleaning import remove
from clusterkit.store.store import RunStore
from clusterkit.words.errors import RunDirectoryError
from tests.histories import job as job_of
from tests.page.histories import written
from tests.servers import WORLD
from tests.support import Command

pytestmark = [pytest.mark.process, pytest.mark.timeout(30)]


def sbatch(place: Path, code: str) -> None:
    """Have this shell script in place of sbatch."""
    (place / "sbatch").write_text(f"#!/bin/sh\n{code}\n")
    (place / "sbatch").chmod(0o755)


def test_a_run_that_slurm_refuses_can_be_submitted_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same id, once it is corrected; a run that Slurm has taken can not."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sbatch(tmp_path, "echo 'sbatch: error: Invalid partition name specified' >&2; exit 1")
    with pytest.raises(SlurmError, match="Invalid partition name specified"):
        submission("r-1").submit("#!/bin/sh", "", "")
    sbatch(tmp_path, "echo 17")
    assert submission("r-1").submit("#!/bin/sh", "", "") == 17
    with pytest.raises(RunDirectoryError, match="A run r-1 was submitted already"):
        submission("r-1").submit("#!/bin/sh", "", "")


def test_the_job_file_to_look_at_has_no_secrets_and_rm_removes_the_other_one(
    home: Path, tmp_path: Path, clusterkit: Callable[..., Command]
) -> None:
    """The supervisor reads the one that has them, which only this user can read."""
    sbatch(tmp_path, "cat > submitted.sh; echo 17")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DB_PASS": "hush"}
    words = ["-d", "--engine", "slurm", "--hosts", "2", "--workers", "2", "--run-id", "r-1", "--env", "DB_PASS"]
    command = clusterkit("up", *words, WORLD, "postgres://me:hush@db", env=env, cwd=tmp_path)
    assert command.wait(20) == 0, command.output
    run = RunStore(home).run("r-1")
    secret = run.submitted / "job.secret.toml"
    assert secret.stat().st_mode & 0o777 == 0o600
    job = tomllib.loads(secret.read_text())
    assert (job["env"], job["args"]) == ({"DB_PASS": "hush"}, ["postgres://me:hush@db"])
    assert "hush" not in (run.submitted / "job.toml").read_text() + command.output
    assert f"-f {secret}" in (tmp_path / "submitted.sh").read_text()
    written(run.path, job_of(workers=1))
    remove(run)
    assert not run.submitted.exists()
    assert not run.path.exists()

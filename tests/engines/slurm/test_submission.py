"""Submitting a run to commands that play Slurm's: what is left of one that Slurm refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusterkit.engines.slurm.errors import SlurmError
from clusterkit.engines.slurm.submission import submission
from clusterkit.words.errors import RunDirectoryError

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
        submission("r-1").submit("#!/bin/sh", "")
    sbatch(tmp_path, "echo 17")
    assert submission("r-1").submit("#!/bin/sh", "") == 17
    with pytest.raises(RunDirectoryError, match="A run r-1 was submitted already"):
        submission("r-1").submit("#!/bin/sh", "")

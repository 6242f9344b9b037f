"""Runs on three hosts with real sshds."""

from __future__ import annotations

import pytest

from tests.engines.ssh.hosts import SshHosts
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
MIMIC = CHILDREN / "mimic.py"
GANG = ("--workers", "3")
PS = ("--workers", "2", "--ps", "1")


@pytest.mark.parametrize("shape", [GANG, PS])
def test_a_job_runs_and_a_killed_worker_restarts(ssh: SshHosts, shape: tuple[str, ...]) -> None:
    """A gang, and a job with a parameter server."""
    run = ssh.up(*shape, "--restart-backoff", "0.1", "--fault", "kill worker:1 @ step=20", MIMIC, "--steps", "40")
    assert run.wait(60) == 0, run.output
    assert len(set(run.events("Placed")[0]["hosts"].values())) == 3
    assert run.events("RestartPlanned"), run.output

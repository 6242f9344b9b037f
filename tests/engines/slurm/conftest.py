"""The fixture for runs on Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.slurm.runs import SlurmUp, Start
from tests.engines.slurm_cluster import SlurmCluster
from tests.support import wait_until


@pytest.fixture
def up(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Start]:
    """Submit a run; afterwards nothing of it is left on any host."""
    started: list[SlurmUp] = []

    def start(*args: str | Path) -> SlurmUp:
        home = slurm.jobs / f"home-{tmp_path.name}-{len(started)}"
        home.mkdir(mode=0o700)  # whatever the mask: clusterkit refuses one that others can write to
        started.append(SlurmUp(slurm, home, tuple(map(str, args))))
        return started[-1]

    yield start
    for command in started:
        command.end()
    slurm.run("scancel", "--quiet", "--user=root")
    wait_until(lambda: not slurm.processes(), 30, lambda: str(slurm.processes()))

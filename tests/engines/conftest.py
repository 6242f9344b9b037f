"""The test cluster, for whoever needs Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.slurm_cluster import SlurmCluster, why_no_slurm


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """One for all tests of this process. They use `slurm`."""
    if (why := why_no_slurm()) is not None:
        pytest.skip(f"no Slurm here: {why}")
    cluster = SlurmCluster()
    yield cluster
    cluster.end()


@pytest.fixture
def slurm(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster, with all hosts up and idle; afterwards no process of a job may be left on any."""
    yield slurm_cluster
    try:
        slurm_cluster.clear()
    except AssertionError:
        slurm_cluster.restart()  # for the next test
        raise

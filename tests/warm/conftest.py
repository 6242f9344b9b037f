"""Fixtures of the tests of warm servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Commands, Start, Warm


@pytest.fixture
def warm(home: Path, up: Start, clusterkit: Commands) -> Iterator[Warm]:
    """Start servers, which end after the test."""
    made = Warm(home, up, clusterkit)
    yield made
    made("stop")

"""The page of the log from a moment on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clusterkit.page.model.merged import NEAR, ArrivalsIndex
from clusterkit.store.directory import RunDirectory


@pytest.fixture
def index(tmp_path: Path) -> ArrivalsIndex:
    """1,000 arrivals of two tasks, one a second, of 10 bytes each."""
    run = RunDirectory(tmp_path)
    lines = [f"{1000 + n}.5 worker:{n % 2} 1 {10 * (n // 2 + 1)}\n" for n in range(1000)]
    run.arrivals.parent.mkdir(parents=True, exist_ok=True)
    run.arrivals.write_text("".join(lines))
    made = ArrivalsIndex(run)
    made.update()
    return made


@pytest.mark.slow
def test_a_moment_is_found_among_arrivals(index: ArrivalsIndex) -> None:
    """The first piece that is not older, whatever the moment: before all, after all, at one, between two."""
    assert index.size > 2 * NEAR
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for at in (0.0, 1000.5, 1000.6, 1999.5, 1999.6, 1e12, *(chance.uniform(990, 2010) for _ in range(200))):
        expected = [1000.5 + n for n in range(1000) if 1000.5 + n >= at]
        assert [piece.at for piece in index.since(at)] == expected


def test_there_may_be_no_arrivals(tmp_path: Path) -> None:
    """Nothing has been written yet."""
    made = ArrivalsIndex(RunDirectory(tmp_path))
    made.update()
    assert list(made.since(0.0)) == []

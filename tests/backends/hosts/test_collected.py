"""Files that agents send: where in the run directory their parts may be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.backends.hosts.incoming import LONGEST, Collected
from clusterkit.backends.link.messages import BadMessage, Written
from clusterkit.store.directory import RunDirectory


@pytest.fixture
def collected(tmp_path: Path) -> Iterator[Collected]:
    """The files of a run's hosts."""
    directory = RunDirectory(tmp_path / "r-1")
    directory.make()
    made = Collected(directory, lambda event: None, lambda task, attempt, data: None)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("stacks/stall-1.txt", -1),
        ("stacks/stall-1.txt", LONGEST),
        ("stacks/stall-1.txt", 1 << 70),
        ("stacks/../../x-1.txt", 0),
        ("job.json", 0),
    ],
)
def test_a_part_that_no_agent_sends_is_refused(collected: Collected, tmp_path: Path, name: str, offset: int) -> None:
    """The connection ends with it, and nothing is written."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadMessage):
        collected.written("n1", Written(name, offset), b"data")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_part_is_written_where_it_belongs(collected: Collected, tmp_path: Path) -> None:
    """Parts of a file come one after the other."""
    for offset, data in ((0, b"first "), (6, b"second")):
        collected.written("n1", Written("stacks/stall-1.txt", offset), data)
    assert (tmp_path / "r-1/stacks/n1-stall-1.txt").read_bytes() == b"first second"

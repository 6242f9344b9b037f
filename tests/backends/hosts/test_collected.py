"""Files that agents send: where in the run directory their parts may be written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clusterkit.backends.hosts.incoming import LONGEST, MOST_OPEN, CollectedFiles
from clusterkit.backends.link.messages import BadMessage, Output, Written
from clusterkit.store.directory import RunDirectory
from clusterkit.words.events import Drained
from clusterkit.words.model import Task, TaskType


@pytest.fixture
def collected(tmp_path: Path) -> Iterator[CollectedFiles]:
    """The files of a run's hosts."""
    directory = RunDirectory(tmp_path / "r-1")
    directory.make()
    made = CollectedFiles(directory, lambda event: None, lambda task, attempt, data: None)
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
def test_a_part_that_no_agent_sends_is_refused(
    collected: CollectedFiles, tmp_path: Path, name: str, offset: int
) -> None:
    """The connection ends with it, and nothing is written."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadMessage):
        collected.write_part("n1", Written(name, offset), b"data")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_part_is_written_where_it_belongs(collected: CollectedFiles, tmp_path: Path) -> None:
    """Parts of a file come one after the other."""
    for offset, data in ((0, b"first "), (6, b"second")):
        collected.write_part("n1", Written("stacks/stall-1.txt", offset), data)
    assert (tmp_path / "r-1/stacks/n1-stall-1.txt").read_bytes() == b"first second"


def test_output_that_comes_while_other_attempts_end_is_whole(
    collected: CollectedFiles,
) -> None:
    """The listener's thread writes more logs than may be open, while the loop's thread closes them."""
    tasks = [Task(TaskType.WORKER, index) for index in range(MOST_OPEN + 20)]
    interval = sys.getswitchinterval()
    for task in tasks:
        collected._directory.log(task, 1).parent.mkdir(parents=True, exist_ok=True)

    def write() -> None:
        for line in range(6):
            for task in tasks:
                collected.add_output(Output(task, 1, 0.0), f"{line}\n".encode())

    def end() -> None:
        for _ in range(6):
            for task in reversed(tasks):
                collected.attempt_drained(Drained(task, 1))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(write), pool.submit(end)]:
                done.result(60)
    finally:
        sys.setswitchinterval(interval)
    whole = "".join(f"{line}\n" for line in range(6))
    assert {collected._directory.log(task, 1).read_text() for task in tasks} == {whole}

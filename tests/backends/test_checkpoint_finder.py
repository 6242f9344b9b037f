"""Finding checkpoints: which one existed when an attempt began, whatever happens to the directory meanwhile."""

from __future__ import annotations

import os
import queue
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from clusterkit.backends.local import checkpoint_finder
from clusterkit.backends.local.checkpoint_finder import CheckpointFinder
from clusterkit.store import checkpoints
from clusterkit.store.checkpoints import newest_checkpoint
from clusterkit.words.events import CheckpointFound
from tests.histories import task

WORKERS = [task(f"worker:{index}") for index in range(8)]
NOW = 1_000_000.0  # a wall time


class WatchedFinder:
    """A finder whose scans are counted."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.posted = queue.SimpleQueue[Any]()
        self.scans: list[float] = []
        self.begun, self.held = threading.Event(), threading.Lock()

        def counted(place: PurePosixPath, before: float, ended: object) -> str | None:
            self.scans.append(before)
            self.begun.set()
            with self.held:
                return newest_checkpoint(place, before)

        monkeypatch.setattr(checkpoint_finder, "newest_checkpoint", counted)
        self.finder = CheckpointFinder(PurePosixPath(directory), self.posted.put)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedFinder]:
    """A finder that is ended after the test."""
    made = WatchedFinder(tmp_path, monkeypatch)
    yield made
    made.finder.stop()


def write(path: Path, at: float) -> str:
    """A file that was written at a wall time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (at, at))
    return str(path)


def test_what_was_written_after_the_start_was_not_there(watched: WatchedFinder, tmp_path: Path) -> None:
    """The attempt may write its own first checkpoint while the scan goes on."""
    old = write(tmp_path / "ckpt-1.index", NOW - 5)
    write(tmp_path / "ckpt-2.index", NOW + 0.1)
    watched.finder.look(WORKERS[0], 2, NOW)
    assert watched.posted.get(timeout=10) == CheckpointFound(WORKERS[0], 2, old)


def test_a_gang_shares_a_scan(watched: WatchedFinder, tmp_path: Path) -> None:
    """Those that begin during the first one's; what was written meanwhile was there when they began."""
    first = write(tmp_path / "ckpt-1.index", NOW - 5)
    with watched.held:
        watched.finder.look(WORKERS[0], 2, NOW)
        assert watched.begun.wait(10)
        second = write(tmp_path / "ckpt-2.index", NOW + 0.05)
        for index, worker in enumerate(WORKERS[1:], 1):
            watched.finder.look(worker, 2, NOW + index / 10)
    found = [watched.posted.get(timeout=10) for _ in WORKERS]
    assert found == [CheckpointFound(w, 2, first if w == WORKERS[0] else second) for w in WORKERS]
    assert watched.scans == [NOW, NOW + 0.7]


def test_without_a_checkpoint_nothing_is_posted(watched: WatchedFinder, tmp_path: Path) -> None:
    """Nor where there is no directory."""
    write(tmp_path / "notes.txt", NOW - 5)
    watched.finder.look(WORKERS[0], 2, NOW)
    shutil.rmtree(tmp_path)
    watched.finder.look(WORKERS[0], 3, NOW + 9)
    watched.finder.stop()
    assert watched.posted.empty()
    tmp_path.mkdir()


def test_a_scan_of_a_large_directory_ends_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`stop` does not wait for it, and nothing is posted after that."""
    for index in range(100):
        write(tmp_path / f"ckpt-{index}.index", NOW)
    begun = threading.Event()
    real = checkpoints._entries

    def slow(directory: str) -> Iterator[os.DirEntry[str]]:
        for entry in real(directory):
            begun.set()
            one._ended.wait(10)  # it goes on when `stop` has begun
            yield entry

    monkeypatch.setattr(checkpoints, "_entries", slow)
    monkeypatch.setattr(checkpoint_finder, "PATIENCE", 600.0)
    posted: list[Any] = []
    one = CheckpointFinder(PurePosixPath(tmp_path), posted.append)
    one.look(WORKERS[0], 2, NOW + 1)
    assert begun.wait(10)
    one.stop()
    assert one._thread is not None
    assert not one._thread.is_alive()
    assert posted == []


def test_the_newest_of_what_was_seen_where_there_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of any size is looked at for a bounded time."""
    for index in range(100):
        write(tmp_path / "a" / f"ckpt-{index}.index", NOW + index)
    monkeypatch.setattr(checkpoints, "MOST_ENTRIES", 10)
    assert newest_checkpoint(PurePosixPath(tmp_path)) is not None
    monkeypatch.setattr(checkpoints, "LONGEST_SCAN", -1.0)
    assert newest_checkpoint(PurePosixPath(tmp_path)) is None


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["a.keras", ".b.keras", ".hidden/c.keras"], "a.keras"),
        (["a/b/c/ckpt-1.index", "a/ckpt-0.index"], "a/ckpt-0.index"),
        (["a.ckpt/data", "b.txt"], "a.ckpt"),
        (["checkpoint", "a.data-00000-of-00001"], None),
    ],
)
def test_what_counts_as_a_checkpoint(tmp_path: Path, names: list[str], newest: str | None) -> None:
    """Files and directories at any depth, by how their names end; nothing that is hidden."""
    for age, name in enumerate(names):
        write(tmp_path / name, NOW + age)
    found = newest_checkpoint(PurePosixPath(tmp_path))
    assert found == (None if newest is None else str(tmp_path / newest))


def test_a_directory_that_changes_all_the_time_can_be_scanned(tmp_path: Path) -> None:
    """Beside a loop that publishes and prunes, as every program does that writes checkpoints."""
    old = write(tmp_path / "ckpt-0" / "state.index", NOW)
    over = threading.Event()

    def publish_and_prune() -> None:
        step = 0
        while not over.is_set():
            step += 1
            for part in ("a", "b", "c"):
                write(tmp_path / ".staged" / part / "state.index", time.time())
            (tmp_path / ".staged").rename(tmp_path / f"ckpt-{step}")
            if step > 2:
                shutil.rmtree(tmp_path / f"ckpt-{step - 2}")

    thread = threading.Thread(target=publish_and_prune)
    thread.start()
    try:
        for _ in range(1500):
            assert newest_checkpoint(PurePosixPath(tmp_path)) is not None
            assert newest_checkpoint(PurePosixPath(tmp_path), NOW) == old
    finally:
        over.set()
        thread.join()

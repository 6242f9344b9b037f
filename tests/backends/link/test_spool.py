"""The spools of agents that were killed: kept for a while, then removed; those of others are left alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from clusterkit.backends.link.spool import PREFIX, remove_orphans
from clusterkit.store.directory import RunDirectory

LONG_AGO, SINCE, BEFORE = 1000.0, 3000.0, 2000.0  # wall times


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def spool_at(place: Path, changed: float) -> RunDirectory:
    """A spool with a log that was last changed then."""
    run = RunDirectory(place / "run-1")
    run.make()
    os.close(run.lock())
    (run.path / "a.log").write_text("the only copy")
    for path in [*place.rglob("*"), place]:
        os.utime(path, (LONG_AGO, LONG_AGO))
    os.utime(run.path / "a.log", (changed, changed))
    return run


def test_an_orphan_is_removed_when_it_is_old(temporary: Path) -> None:
    """The newest file counts, not the directory: a log grows without changing that."""
    old, recent = temporary / f"{PREFIX}old", temporary / f"{PREFIX}recent"
    spool_at(old, LONG_AGO)
    spool_at(recent, SINCE)
    remove_orphans(BEFORE)
    assert not old.exists()
    assert (recent / "run-1" / "a.log").exists()


def test_a_live_one_stays(temporary: Path) -> None:
    """However long its tasks are silent."""
    place = temporary / f"{PREFIX}live"
    descriptor = spool_at(place, LONG_AGO).lock()
    remove_orphans(BEFORE)
    assert place.exists()
    os.close(descriptor)
    remove_orphans(BEFORE)
    assert not place.exists()


def test_links_and_files_stay(temporary: Path) -> None:
    """Anybody can put a link into the temporary directory, to a place that is not theirs."""
    kept = temporary / "kept"
    spool_at(kept, LONG_AGO)
    (temporary / f"{PREFIX}link").symlink_to(kept)
    (temporary / f"{PREFIX}file").write_text("")
    remove_orphans(BEFORE)
    assert (kept / "run-1" / "a.log").exists()
    assert (temporary / f"{PREFIX}file").exists()


def test_what_it_links_to_stays(temporary: Path) -> None:
    """A spool has links to directories that all hosts share."""
    shared = temporary / "shared"
    shared.mkdir()
    place = temporary / f"{PREFIX}old"
    run = spool_at(place, LONG_AGO)
    (shared / "events").write_text("of every host")
    os.utime(shared / "events", (LONG_AGO, LONG_AGO))
    (run.path / "export").symlink_to(shared)
    os.utime(run.path / "export", (LONG_AGO, LONG_AGO), follow_symlinks=False)
    os.utime(run.path, (LONG_AGO, LONG_AGO))
    remove_orphans(BEFORE)
    assert not place.exists()
    assert (shared / "events").exists()

"""Checkpoints that can't be read now: they may be intact, so they are neither skipped nor removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from clusterkit.training import checkpoint_store
from clusterkit.training.checkpoint_store import (
    MANIFEST,
    Checkpoint,
    CheckpointStore,
    CheckpointUnreadable,
    Damaged,
    verify,
)

UNREADABLE = (errno.EMFILE, errno.ENFILE, errno.EIO, errno.EACCES, errno.ESTALE, errno.ENOMEM)


def failing(monkeypatch: pytest.MonkeyPatch, number: int, times: int, suffix: str) -> list[Path]:
    """Opening files with this suffix fails so many times; the files of which that was tried."""
    tried, opened = list[Path](), Path.open

    def fails(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name.endswith(suffix):
            tried.append(self)
            if len(tried) <= times:
                raise OSError(number, os.strerror(number), str(self))
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", fails)
    monkeypatch.setattr(checkpoint_store, "RETRY_AFTER", (0.0, 0.0))
    return tried


def put(store: CheckpointStore, step: int) -> str:
    """Save a checkpoint; return its path."""
    staged = store.stage()
    (staged / "state.index").write_bytes(b"index")
    return store.publish(staged, step)


@pytest.mark.parametrize("suffix", [MANIFEST, "state.index"])
@pytest.mark.parametrize("number", UNREADABLE, ids=errno.errorcode.get)
def test_what_can_not_be_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, suffix: str
) -> None:
    """It is tried again, and if that does not help, it is an error: the checkpoint may be the newest intact one."""
    store = CheckpointStore(str(tmp_path), "chief:0")
    put(store, 100)
    path = put(store, 200)
    with monkeypatch.context() as patched:
        tried = failing(patched, number, 2, suffix)
        assert next(store.intact()) == Checkpoint(200, path)
        assert len(tried) == 3
    with monkeypatch.context() as patched:
        failing(patched, number, 99, suffix)
        with pytest.raises(CheckpointUnreadable, match=f"(?s){suffix}.*{os.strerror(number)}"):
            list(store.intact())
    assert [found.step for found in store.found()] == [200, 100]


@pytest.mark.parametrize(("name", "why"), [("x" * 5000, "xxx cannot be read"), ("\\u0000", "names")])
def test_a_name_that_no_file_can_have_is_damage(tmp_path: Path, name: str, why: str) -> None:
    """Nothing is tried again for that."""
    store = CheckpointStore(str(tmp_path), "chief:0")
    path = put(store, 200)
    Path(path, MANIFEST).write_text(f'{{"step": 200, "files": {{"{name}": {{"bytes": 1, "sha256": ""}}}}}}')
    with pytest.raises(Damaged, match=why):
        verify(Checkpoint(200, path))

"""Checkpoints as an evaluator sees them come."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.training import progress
from clusterkit.training.checkpoint_store import CheckpointStore
from clusterkit.training.sidecar import new_checkpoints

AT_ONCE = 0.0


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture(autouse=True)
def _term_as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) == before


def put(directory: Path, step: int, content: bytes = b"weights") -> str:
    store = CheckpointStore(str(directory), "chief:0")
    staged = store.stage()
    (staged / "state.index").write_bytes(content)
    return store.publish(staged, step)


def test_the_newest_then_each_newer_one(tmp_path: Path) -> None:
    """Checkpoints that were superseded during an evaluation are skipped, and SIGTERM ends the iteration."""
    put(tmp_path, 10)
    put(tmp_path, 20)
    seen = []
    for checkpoint in new_checkpoints(AT_ONCE, tmp_path):
        seen.append(checkpoint.step)
        assert checkpoint.path == str(tmp_path / f"ckpt-{checkpoint.step}")
        if checkpoint.step == 20:
            put(tmp_path, 30)
            put(tmp_path, 40)
        else:
            signal.raise_signal(signal.SIGTERM)
    assert seen == [20, 40]


def test_a_restart_may_save_the_same_step_again(tmp_path: Path) -> None:
    """The replacement counts as a new checkpoint."""
    put(tmp_path, 10, b"first")
    coming = new_checkpoints(AT_ONCE, tmp_path)
    assert next(coming).step == 10
    put(tmp_path, 10, b"again")
    assert next(coming).step == 10
    coming.close()


def test_training_may_go_back(tmp_path: Path) -> None:
    """After a damaged checkpoint the run resumes from an older one, and its next checkpoint may be older too."""
    put(tmp_path, 10)
    newest = put(tmp_path, 30)
    coming = new_checkpoints(AT_ONCE, tmp_path)
    assert next(coming).step == 30
    shutil.rmtree(newest)
    put(tmp_path, 20)
    assert next(coming).step == 20
    coming.close()


def test_a_damaged_one_is_not_given(tmp_path: Path) -> None:
    """The newest intact one is yielded, and only once, however many damaged ones appear."""
    put(tmp_path, 10)
    for step in (20, 30):
        Path(put(tmp_path, step), "state.index").write_bytes(b"cut")
    coming = new_checkpoints(AT_ONCE, tmp_path)
    assert next(coming).step == 10
    Path(put(tmp_path, 40), "state.index").write_bytes(b"cut")
    put(tmp_path, 50)
    assert next(coming).step == 50
    coming.close()


def test_waiting_ends_with_the_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends an evaluator that waits for its first checkpoint."""

    def found(self: CheckpointStore) -> list[Any]:
        signal.raise_signal(signal.SIGTERM)
        return []

    monkeypatch.setattr(CheckpointStore, "found", found)
    assert list(new_checkpoints(3600, tmp_path)) == []


def test_asking_for_the_next_reports_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells the supervisor that the evaluator is done; other tasks do not report it."""
    reported: list[int] = []
    monkeypatch.setattr(progress, "report", reported.append)
    for task in ("worker", "evaluator"):
        put(tmp_path, 10)
        config = {"cluster": {"worker": ["h:1"]}, "task": {"type": task, "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        for _ in new_checkpoints(AT_ONCE, tmp_path):
            signal.raise_signal(signal.SIGTERM)
    assert reported == [10]


def test_the_default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the run's checkpoint directory."""
    monkeypatch.setenv("CLUSTERKIT_CHECKPOINT_DIR", str(tmp_path))
    put(tmp_path, 10)
    coming = new_checkpoints(AT_ONCE)
    assert next(coming).step == 10
    coming.close()

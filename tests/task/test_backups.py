"""Two fits that share a directory of Keras's BackupAndRestore: a notice, unless one continues the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import backups
from tests.support import load


def fit(kind: Any, directory: str, epochs: range) -> None:
    """A fit with the callback, as Keras calls it."""
    callback = kind()
    callback.backup_dir, callback.params = directory, {"epochs": epochs.stop}
    callback.on_train_begin()
    for epoch in epochs:
        callback.on_epoch_begin(epoch)
    callback.on_train_end()


@pytest.mark.parametrize(
    ("directory", "epochs", "notices"),
    [("one", range(3), 1), ("one/", range(2), 1), ("other", range(3), 0), ("one", range(3, 5), 0)],
    ids=["the same", "the same, fewer epochs", "another", "continued"],
)
def test_two_fits_in_one_directory(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], directory: str, epochs: range, notices: int
) -> None:
    """Told once, when the second one begins."""
    monkeypatch.setattr(backups, "_epochs", {})
    monkeypatch.setenv("CLUSTERKIT_RECORD", "records")
    methods = {name: lambda self, *args: None for name in ("on_train_begin", "on_epoch_begin", "on_train_end")}
    kind = type("BackupAndRestore", (), methods)
    told: list[tuple[str, dict[str, object]]] = []
    output = SimpleNamespace(write=lambda kind, **fields: told.append((kind, fields)))
    recorder = SimpleNamespace(output=output, step=36)
    monkeypatch.setattr(load("task/patches/recorder/recorder"), "recorder_of", lambda load: recorder)
    backups.watch(SimpleNamespace(BackupAndRestore=kind), load)
    fit(kind, "one", range(3))
    assert capfd.readouterr().err == ""
    fit(kind, directory, epochs)
    where = {"path": directory.rstrip("/"), "step": 36}
    assert told == [("backup", {**where, "path": "one"}), ("backup", where)] + [("shared-backup", where)] * notices
    assert capfd.readouterr().err.count("Give each call a directory of its own") == notices

"""Which tables a task is recorded to write, and how long they were before."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import hook
from clusterkit.task.patches.recorder import tables as patch
from clusterkit.task.patches.recorder.tables import MOST, Tables


class Output:
    """Takes the records."""

    is_open, directory = True, "/records"

    def __init__(self) -> None:
        self.lines: list[tuple[str, int, bool]] = []

    def write(self, kind: str, path: str, size: int, appends: bool) -> None:
        """Take one."""
        assert kind == "table"
        self.lines.append((Path(path).name, size, appends))


@pytest.fixture
def output() -> Output:
    """The lines that are recorded."""
    return Output()


def test_a_table_is_recorded_once_for_each_way_of_writing(output: Output, tmp_path: Path) -> None:
    """With its size before the first time."""
    path = tmp_path / "log.csv"
    path.write_text("1,2\n")
    tables = Tables(output)
    for flags in (os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_APPEND, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        tables.opening(os.fsencode(path), flags)
        path.write_text("1,2\n3,4\n")
    assert output.lines == [("log.csv", 4, True), ("log.csv", 8, False)]


def test_a_renamed_file_replaces_a_table(output: Output, tmp_path: Path) -> None:
    """Its rows are all new. Other files are no tables."""
    tables = Tables(output)
    tables.replaced(tmp_path / "log.csv.new", tmp_path / "log.csv")
    tables.replaced(tmp_path / "a.npz.new", str(tmp_path / "a.npz"))
    tables.opening(str(tmp_path / "a.txt"), os.O_WRONLY)
    tables.opening("/records/worker-0.1.jsonl", os.O_WRONLY | os.O_APPEND)  # the record itself
    tables.opening(str(tmp_path / "a.jsonl"), os.O_WRONLY)
    tables.opening(str(tmp_path / "best.json"), os.O_WRONLY)
    tables.opening(str(tmp_path / "ckpt-5" / "manifest.json"), os.O_WRONLY)  # of a checkpoint
    assert output.lines == [("log.csv", 0, False), ("a.jsonl", 0, False), ("best.json", 0, False)]


def test_a_program_may_write_any_number_of_tables(output: Output, tmp_path: Path) -> None:
    """The record does not grow with them."""
    tables = Tables(output)
    for number in range(3 * MOST):
        tables.opening(str(tmp_path / f"{number}.csv"), os.O_WRONLY)
    assert len(output.lines) == MOST


def test_tables_that_tensorflow_writes_are_recorded(
    output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens a file with the first write. Files on other machines, and clusterkit's own, are left out."""
    monkeypatch.setattr(patch, "_tables", [Tables(output)])

    class FileIO:
        """As TensorFlow's."""

        def __init__(self, name: Path | str, mode: str) -> None:
            self.name, self.mode, self._writable_file = name, mode, None

        def _prewrite_check(self) -> None:
            self._writable_file = self._writable_file or object()  # type: ignore[assignment]

    module: Any = SimpleNamespace(FileIO=FileIO, rename_v2=lambda src, dst, overwrite=False: None)
    phases = SimpleNamespace(is_off=False, own=nullcontext)
    guarded = SimpleNamespace(output=SimpleNamespace(guarded=lambda what, call: call()))
    loaded = {
        "task/patches/hook": hook,
        "task/patches/recorder/output": guarded,
        "task/patches/phases": SimpleNamespace(phases=phases),
    }
    patch.watch_gfile(module, loaded.__getitem__)
    (tmp_path / "log.csv").write_text("1,2\n")
    for name, mode in ((tmp_path / "log.csv", "a"), ("gs://bucket/log.csv", "w"), (tmp_path / "model.bin", "wb")):
        file = module.FileIO(name, mode)
        file._prewrite_check()
        file._prewrite_check()
    module.rename_v2(str(tmp_path / "best.json.new"), str(tmp_path / "best.json"), overwrite=True)
    phases.is_off = True
    module.FileIO(tmp_path / "own.json", "w")._prewrite_check()
    assert output.lines == [("log.csv", 4, True), ("best.json", 0, False)]

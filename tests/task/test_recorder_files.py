"""Which files a task is recorded to write, and which get their names before they are on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clusterkit.task.patches.recorder.files import MOST, Files


class Output:
    """Takes the records."""

    is_open = True

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def write(self, kind: str, path: str, synced: bool | None = None) -> None:
        """Take one."""
        self.lines.append((f"{kind}: synced" if synced else kind, Path(path).name))


def save(files: Files, path: Path, sync: bool = True, rename: bool = True) -> None:
    """Write a file as a program does, and tell the recorder of it as the hooks do."""
    part = path.with_suffix(".part") if rename else path
    files.opened(str(part))
    with part.open("wb") as file:
        file.write(b"x")
        if sync:
            files.sync(file)
            os.fsync(file.fileno())
    if rename:
        part.replace(path)
        files.rename(part, path)


@pytest.mark.parametrize(
    ("how", "recorded"),
    [
        ({}, [("file", "a.part"), ("file", "a"), ("renamed: synced", "a")]),
        ({"sync": False}, [("file", "a.part"), ("file", "a"), ("renamed", "a")]),
        ({"rename": False}, [("file", "a")]),
        ({"sync": False, "rename": False}, [("file", "a")]),
    ],
)
def test_a_file_has_to_be_on_the_disk_before_it_gets_its_name(
    how: dict[str, bool], recorded: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Each is recorded once, however often it is saved."""
    files, output = made()
    save(files, tmp_path / "a", **how)
    save(files, tmp_path / "a", **how)
    assert output.lines == recorded


def made() -> tuple[Files, Output]:
    """A recorder of files and what it has recorded."""
    output = Output()
    return Files(output), output


def test_a_sync_counts_for_what_was_written_before_it(tmp_path: Path) -> None:
    """Not for what is written to the same file later."""
    files, output = made()
    save(files, tmp_path / "a")
    save(files, tmp_path / "a", sync=False)
    assert output.lines[-1] == ("renamed", "a")


def test_what_the_program_did_not_write_is_not_recorded(tmp_path: Path) -> None:
    """A directory that is renamed, or a file that another process wrote."""
    files, output = made()
    (tmp_path / "old").mkdir()
    (tmp_path / "old").rename(tmp_path / "new")
    files.rename(tmp_path / "old", tmp_path / "new")
    files.rename(tmp_path / "new", os.fsencode(tmp_path / "newest"))
    assert output.lines == []


@pytest.mark.parametrize("name", ["\udcff", "a" * 300, "\n\x1b[31m", "x/../y"])
def test_any_name_is_recorded(name: str, tmp_path: Path) -> None:
    """Also one that is no text, or too long for the system."""
    files, output = made()
    files.opened(f"{tmp_path}/{name}")
    files.rename(f"{tmp_path}/{name}", str(tmp_path / "a"))
    assert [kind for kind, _ in output.lines] == ["file", "file", "renamed"]


def test_few_files_are_recorded(tmp_path: Path) -> None:
    """Of a program that writes thousands."""
    files, output = made()
    for number in range(10 * MOST):
        files.opened(str(tmp_path / str(number)))
    assert len(output.lines) == MOST


def test_a_fork_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output is closed."""
    files, output = made()
    monkeypatch.setattr(Output, "is_open", False)
    files.rename(tmp_path / "a", tmp_path / "b")
    files.sync(_Unreadable())
    assert output.lines == []


@pytest.mark.parametrize(
    ("exports", "replaced"),
    [
        (["m.keras"], []),
        (["m.keras", "m.keras"], ["m.keras"]),
        (["m.keras", "m.keras", "m.keras"], ["m.keras"]),
        (["m.keras m.keras"], []),  # one export that opens its file twice
        (["a.keras", "b.keras"], []),
        (["a.weights.h5", "a.weights.h5"], []),
        (["m.h5", "m.h5"], ["m.h5"]),
        (["m/saved_model.pb", "m/saved_model.pb"], ["m"]),
        (["1/saved_model.pb", "2/saved_model.pb"], []),
        (["m/assets.txt", "m/saved_model.pb"], []),
        (["workertemp_1/m.keras", "workertemp_1/m.keras"], []),  # what another worker saves, and removes at the end
    ],
)
def test_a_model_that_is_written_over_an_old_one_is_recorded_once(
    exports: list[str], replaced: list[str], tmp_path: Path
) -> None:
    """TensorFlow writes the file that makes a directory a model under a temporary name, when the rest is written."""
    files, output = made()
    for number, names in enumerate(exports, 1):
        for path in (tmp_path / name for name in names.split()):
            files.exporting = lambda number=number: number  # type: ignore[misc]  # mypy: a default is no argument here
            path.parent.mkdir(exist_ok=True)
            files.opened(f"{path}.tmp{number}" if path.suffix == ".pb" else str(path))
            path.write_text("model")
        files.exporting = int
        files.opened(str(tmp_path / "log.txt"))
    assert [name for kind, name in output.lines if kind == "replaced"] == replaced


@pytest.mark.parametrize("name", ["saved_model.pb.tmp", "\udcff.keras", "saved_model.pb.tmp/x", "\n\x1b[31m.h5", "."])
def test_any_name_can_be_exported(name: str, tmp_path: Path) -> None:
    """Also one that is no text, or a directory."""
    files, _ = made()
    for number in (1, 2):
        files.exporting = lambda number=number: number  # type: ignore[misc]
        files.opened(f"{tmp_path}/{name}")


class _Unreadable:
    def fileno(self) -> Any:
        """Never called."""
        raise AssertionError

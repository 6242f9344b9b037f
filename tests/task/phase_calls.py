"""What a program does with its files, as the patch `phases` sees it; and what is reported of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.task.patches import phases
from clusterkit.task.patches.steps import Steps
from tests.support import load
from tests.task.counted import Reports


def reporting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """A pipe to a supervisor; the checkpoint directory is `c`, and no fault waits for a phase."""
    made = Reports(tmp_path / "progress")
    (tmp_path / "c").mkdir()
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setenv("CLUSTERKIT_ATTEMPT", "3")
    monkeypatch.setenv("CLUSTERKIT_CHECKPOINT_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("CLUSTERKIT_PHASES", " ".join(f"{phase}:99:0" for phase in ALL))
    monkeypatch.setattr(phases, "phases", phases.Phases())
    phases.phases.write = Steps().write
    yield made
    os.close(made.fd)


ALL = (
    *("importing", "starting", "saving", "saving-open", "saving-write", "saving-sync", "saving-rename", "saved"),
    *("restoring", "evaluating", "exporting", "ending"),
)
SHORT = {"saving-open": "o", "saving-write": "w", "saving-sync": "s", "saving-rename": "r", "restoring": "read"}


def told(reports: Reports) -> str:
    """The phases that have been reported, in short."""
    found = reports.read()
    assert all((one["kind"], one["attempt"]) == ("moment", 3) for one in found)
    return " ".join(SHORT.get(one["phase"], one["phase"]) for one in found)


def write(path: Path, text: str = "x", flush: bool = False) -> None:
    """Write a file as programs do, with Python's own `open` as the patch has it."""
    phases.phases.audit("open", (str(path), "w", os.O_WRONLY | os.O_CREAT))
    with path.open("w") as file:
        phases.phases.watch_file(file, path)
        file.write(text)
        if flush:
            file.flush()
            phases.phases.descriptor("saving-sync", file)


def rename(old: Path, new: Path) -> None:
    """Rename a file or directory."""
    phases.phases.audit("os.rename", (old, new, -1, -1))
    old.rename(new)
    phases.phases.renamed(old, new)


def read(path: Path) -> None:
    """Open a file for reading."""
    phases.phases.audit("open", (str(path), "r", os.O_RDONLY))


def whole(place: Path) -> None:
    """A file is written beside the final one, and renamed."""
    write(place / "tmp", flush=True)
    rename(place / "tmp", place / "state")


def load_here(name: str) -> Any:
    """The files that the patch loads; this test's own phases."""
    return phases if name == "task/patches/phases" else load(name)

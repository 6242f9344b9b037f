"""The records of removed runs, so that a command that continues a run can say that the run was removed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from clusterkit.store.directory import read_json, write_json
from clusterkit.system.files import make_private
from clusterkit.words.wire import LATEST

MOST = 1000  # the number of records that are kept; the oldest are removed


class Removal(NamedTuple):
    """Who removed a run, and the wall time, in seconds. `by` names the command or the page."""

    by: str
    at: float


class Removals:
    """The records of a state directory: a file for each removed run. A record that can't be written is left out."""

    def __init__(self, home: Path) -> None:
        self.path = home / "removed"

    def add(self, run_id: str, removal: Removal) -> None:
        with suppress(OSError):
            make_private(self.path)
            write_json(self.path / f"{run_id}.json", {"by": removal.by, "at": removal.at})
            self._discard_oldest()

    def discard(self, run_id: str) -> None:
        """Remove the record, since a run has this id again."""
        with suppress(OSError):
            (self.path / f"{run_id}.json").unlink(missing_ok=True)

    def find(self, run_id: str) -> Removal | None:
        return _removal(read_json(self.path / f"{run_id}.json"))

    def _discard_oldest(self) -> None:
        files = [entry for entry in os.scandir(self.path) if entry.is_file(follow_symlinks=False)]
        for entry in sorted(files, key=lambda entry: entry.stat().st_mtime)[:-MOST]:
            Path(entry).unlink(missing_ok=True)


def _removal(record: dict[str, Any]) -> Removal | None:
    by, at = record.get("by"), record.get("at")
    if not isinstance(by, str) or isinstance(at, bool) or not isinstance(at, int | float):
        return None
    return Removal(by, float(at)) if 0 <= at < LATEST else None

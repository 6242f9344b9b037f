"""Reads and writes the file in which an exam notes, in each of its runs, the cells that it has judged by the run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress

from clusterkit.store.directory import RunDirectory
from clusterkit.system.files import read_regular, write_whole
from clusterkit.words import wire
from clusterkit.words.examined import ExaminedCell

LARGEST = 1 << 20  # bytes; larger files are not read
MOST = 50  # the maximum number of cells that are read


def note_cells(run: RunDirectory, cells: Iterable[ExaminedCell]) -> None:
    """Write the cells that were judged by a run. Does nothing if the run was removed or can't be written."""
    if not run.path.is_dir():
        return
    with suppress(OSError):
        write_whole(run.examined, json.dumps([wire.encode(cell) for cell in cells]).encode(), 0o600)


def examined_cells(run: RunDirectory) -> tuple[ExaminedCell, ...]:
    """Return the cells that were judged by a run; none if the file does not exist or is damaged."""
    try:
        content = read_regular(run.examined, LARGEST)
        return tuple(_cell(entry) for entry in json.loads(content)[:MOST])
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return ()


def _cell(entry: object) -> ExaminedCell:
    """Decode a cell. Raises ValueError or another error of `wire.decode` if it is invalid."""
    found: ExaminedCell = wire.decode(ExaminedCell, entry)
    texts = (found.exam, found.cell, found.grade, found.command, *found.texts)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is missing")
    return found

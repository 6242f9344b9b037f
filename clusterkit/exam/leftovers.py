"""Reads the tables and documents that a run has written, before the next run of the exam writes them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from clusterkit.exam.recording import Recording
from clusterkit.exam.tables import Table, numbers_of, rows_of
from clusterkit.words.model import Task

LARGEST = 1 << 22  # bytes; longer tables are not compared


def written_tables(attempts: Iterable[Recording], runs: Path) -> dict[str, Table]:
    """Return the tables that the attempts of a run have written, or those of a run and of the one that continued it.

    `runs` is the directory of all runs, whose part of a name is left out, since each run has files of its own there. If
    the attempts have only appended to a file, rows that were there before the first attempt are left out.
    """
    begins: dict[str, int] = {}
    writers = defaultdict[str, set[Task]](set)
    for attempt in attempts:
        for path, (size, appends) in attempt.tables.items():
            begins[path] = min(begins.get(path, size), size) if appends else 0
            writers[path].add(attempt.task)
    tables = {}
    for path, begin in begins.items():
        text = _text_after(Path(path), begin)
        table = Table(rows_of(text), frozenset(writers[path]), numbers_of(text) if path.endswith(".json") else {})
        if table.rows or table.numbers:
            tables[_name_without_run(path, runs)] = table
    return tables


def shared_path(tables: Iterable[str]) -> str:
    """Return the path of a table that all runs write, since it is in no run's directory; "" if there is none.

    `tables` are the names that `written_tables` returns.
    """
    return next((name for name in sorted(tables) if Path(name).is_absolute()), "")


def _name_without_run(path: str, runs: Path) -> str:
    file = Path(path)
    if file.is_relative_to(runs):
        return str(Path(*file.relative_to(runs).parts[1:]))
    return path


def _text_after(path: Path, begin: int) -> str:
    """Return the text of a file from a byte on; "" if it can't be read, or is too long."""
    try:
        if path.stat().st_size > LARGEST + begin:
            return ""
        with path.open("rb") as file:
            file.seek(begin)
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""

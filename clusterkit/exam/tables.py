"""Compares the files that a program leaves behind: the rows of tables, such as a CSV log, and numbers in documents."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clusterkit.exam.model import ExamFinding
from clusterkit.text.printable import printable
from clusterkit.text.spelling import listed
from clusterkit.words.model import Task

MOST_FIELDS = 3  # at most this many fields at the beginning of a row are its key
LARGEST = 1e300  # larger numbers of a document are not compared
MOST_NUMBERS = 500  # further numbers of a document are not compared
CLOSE = 1e-5  # how much a number may differ, relative to its size: a run that is continued may sum in another order
# Numbers with such a name tell of the run, not of the training: a run that was interrupted may have others.
_OF_THE_RUN = re.compile(r"attempt|restart|resum|continu|start|time|date|second|duration|elapsed|pid|port|rank|worker")
SHOWN = 3  # the maximum number of keys in a finding
Row = tuple[str, ...]
_TRUNCATE = (
    "When the program continues, keep the rows up to the restored step and drop the later ones, and append to these."
)
_APPEND = "When the program continues, keep the rows up to the restored step, and append to them: mode 'a', not 'w'."
_FILE_STATE = "Save what the file is made of with the checkpoint, or read it from the file when the program continues."
_ONE_WRITER = "Let worker:0 alone write it, or give each worker a path of its own."


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that a run has written into a file, and the tasks that opened it for writing.

    A document in JSON has no rows; `numbers` maps the names of its numbers, such as `best.loss`, to their values.
    """

    rows: tuple[Row, ...]
    writers: frozenset[Task] = frozenset()
    numbers: Mapping[str, float] = field(default_factory=dict)


def rows_of(text: str) -> tuple[Row, ...]:
    """Return the rows of a table, without its header; empty if the text is not a table with a number in each row."""
    lines = [line for line in text.splitlines() if line.strip()]
    rows = [_fields(line) for line in lines]
    body = [row for row in rows if _is_number(row[0])]
    others = len(rows) - len(body)  # a header, which a program that continues may write again
    if not body or others > max(1, len(body) // 2) or len({len(row) for row in body}) > 1:
        return ()
    return tuple(body)


def numbers_of(text: str) -> dict[str, float]:
    """Return the numbers of a JSON document by their names; empty if the text is not one."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    numbers: dict[str, float] = {}
    waiting: list[tuple[str, object]] = [("", document)]
    while waiting and len(numbers) < MOST_NUMBERS:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}".lstrip("."), one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{name}[{place}]", one) for place, one in enumerate(value)]
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
            numbers[name] = float(value)
    return {name: number for name, number in sorted(numbers.items()) if not _OF_THE_RUN.search(name.lower())}


def _fields(line: str) -> Row:
    if line.startswith("{"):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            return (line,)
        return tuple(map(str, values.values())) if isinstance(values, dict) and values else (line,)
    return tuple(field.strip() for field in line.split("\t" if "\t" in line else ","))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def continued_tables(
    unbroken: Mapping[str, Table],
    again: Mapping[str, Table],
    continued: Mapping[str, Table],
    *,
    compares_lost: bool = True,
) -> Iterator[ExamFinding]:
    """Yield findings about the tables of a run that was interrupted: rows that are there twice, or no longer.

    Only tables whose rows have the same keys in two unbroken runs are compared: a key may be the time, for example.
    """
    for name, table, length in _keyed(unbroken):
        same, theirs = again.get(name), continued.get(name)
        if same is None or theirs is None or not theirs.rows or _keys(same, length) != _keys(table, length):
            continue
        wanted, got = _keys(table, length), _keys(theirs, length)
        twice = [key for key, count in got.items() if count > 1 and wanted[key] == 1]
        lost = [key for key in wanted if key not in got]
        if twice:
            yield ExamFinding(
                "rows-twice",
                f"{printable(name)} has rows more than once after the program continued, and once in the unbroken run: "
                f"{_named(twice)}.",
                _TRUNCATE,
            )
        elif lost and compares_lost:
            yield ExamFinding(
                "rows-lost",
                f"{printable(name)} lacks rows after the program continued, of {len(wanted)} in the unbroken run: "
                f"{_named(lost)}.",
                _APPEND,
            )


def continued_documents(
    unbroken: Mapping[str, Table], again: Mapping[str, Table], continued: Mapping[str, Table]
) -> Iterator[ExamFinding]:
    """Yield a finding for each document that has another number after a continuation than in two unbroken runs."""
    for name, document in unbroken.items():
        if name not in again or name not in continued:
            continue
        others = continued[name].numbers
        for key, number in document.numbers.items():
            other = others.get(key)
            if other is None or again[name].numbers.get(key) != number:
                continue
            if not math.isclose(other, number, rel_tol=CLOSE, abs_tol=CLOSE):
                yield ExamFinding(
                    "file-differs",
                    f"In {printable(name)}, {printable(key) or 'the number'} is {other:.6g} after the program "
                    f"continued, and {number:.6g} in the unbroken run.",
                    _FILE_STATE,
                )
                break


def shared_tables(one: Mapping[str, Table], several: Mapping[str, Table]) -> Iterator[ExamFinding]:
    """Yield findings about tables that several workers write, and that have rows twice, unlike those of one worker."""
    for name, table, length in _keyed(one):
        theirs = several.get(name)
        if theirs is None or len(theirs.writers) < 2:
            continue
        wanted, got = _keys(table, length), _keys(theirs, length)
        twice = [key for key, count in got.items() if count > 1 and wanted[key] == 1]
        if twice:
            yield ExamFinding(
                "rows-twice",
                f"{listed(sorted(theirs.writers))} write {printable(name)}, which has rows more than once, unlike that "
                f"of 1 worker: {_named(twice)}.",
                _ONE_WRITER,
            )


def _keyed(tables: Mapping[str, Table]) -> Iterator[tuple[str, Table, int]]:
    """Yield (name, table, number of fields) for each table whose rows differ in so many integers at their beginning."""
    for name, table in tables.items():
        for length in range(1, MOST_FIELDS + 1):
            keys = _keys(table, length)
            if keys and max(keys.values()) == 1 and all(_is_integer(field) for key in keys for field in key):
                yield name, table, length
                break


def _is_integer(field: str) -> bool:
    return _is_number(field) and float(field).is_integer()


def _keys(table: Table, length: int) -> Counter[Row]:
    return Counter(row[:length] for row in table.rows)


def _named(keys: Sequence[Row]) -> str:
    """Return words such as `3, 4, 5 and 2 more`."""
    return listed([printable(" ".join(key))[:40] for key in keys], SHOWN)

"""The program of a `%%cluster` cell: parses the line of the magic, and writes the program."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterkit.job.spec import UNFIT_CHARACTERS
from clusterkit.task import call
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob

WITH = "--with"


@dataclass(frozen=True, slots=True)
class CellLine:
    """The line of `%%cluster`: options of `up`, names to pass from the notebook, and the program's arguments."""

    options: Sequence[str]
    names: Sequence[str] = ()
    args: Sequence[str] = ()


def words_of(line: str) -> list[str]:
    """Split a line into words as a shell does. Raises BadJob."""
    if UNFIT_CHARACTERS.search(line):
        raise BadJob(["The line of the magic has a NUL character or half a character in it."])
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadJob([f"The line of the magic can't be split into words: {error}."]) from None


def cell_line(line: str) -> CellLine:
    """Parse the line of `%%cluster`. Raises BadJob."""
    options, names = list[str](), list[str]()
    words = iter(words_of(line))
    for word in words:
        if word == "--":
            break
        if word == WITH:
            names += next(words, "").split(",")
        elif word.startswith(f"{WITH}="):
            names += word.partition("=")[2].split(",")
        else:
            options.append(word)
    if wrong := [name for name in names if not name.isidentifier()]:
        raise BadJob([f"{WITH} {name!r}: it has to be a name, such as {WITH} model_fn,data" for name in wrong])
    return CellLine(options, tuple(dict.fromkeys(names)), tuple(words))


def taken_along(names: Sequence[str], known: Mapping[str, Any], file: Path) -> None:
    """Pickle the notebook's values of these names. Raises BadJob with a sentence for each name that fails."""
    problems, values = list[str](), {}
    for name in names:
        if name not in known:
            own = [one for one in known if not one.startswith("_")]
            problems.append(f"{WITH} {name}: the notebook has no such name. {did_you_mean(name, own, 'It has')}")
            continue
        try:
            call.dumps(known[name])
            values[name] = known[name]
        except Exception as error:
            problems.append(f"{WITH} {name}: it can't be pickled: {type(error).__name__}: {error}")
    if problems:
        raise BadJob(problems)
    file.write_bytes(call.dumps(values))  # pickled together, so that shared objects stay shared


def source(cell: str, path: Sequence[str], pickled: Path | None) -> str:
    """Return the program. Its line numbers are those of the cell, since its first line replaces the magic's line.

    `path` replaces the file's directory at the start of `sys.path`. `pickled` is the file with the notebook's values.
    """
    future, rest = _without_future(cell)
    first = [*future, "import sys", f"sys.path[:1] = {list(path)!r}"]
    if pickled is not None:
        loaded = f"__import__('pickle').loads(__import__('pathlib').Path({str(pickled)!r}).read_bytes())"
        first.append(f"globals().update({loaded})")
    return "; ".join([*first, "del sys"]) + "\n" + rest


def _without_future(cell: str) -> tuple[list[str], str]:
    """Return the cell's `from __future__` statements, which must come first, and the cell without these statements."""
    try:
        nodes = [node for node in ast.parse(cell).body if isinstance(node, ast.ImportFrom)]
    except (SyntaxError, ValueError):
        return [], cell  # Python will report the error
    lines = [*map(str.encode, cell.split("\n"))]  # columns are counted in bytes
    statements = [node for node in nodes if node.module == "__future__" and node.level == 0]
    for node in reversed(statements):
        last = node.end_lineno or node.lineno
        after = lines[last - 1][node.end_col_offset :]
        lines[node.lineno - 1 : last] = [
            lines[node.lineno - 1][: node.col_offset] + b"pass" + after,
            *[b""] * (last - node.lineno),
        ]
    return [*map(ast.unparse, statements)], b"\n".join(lines).decode()

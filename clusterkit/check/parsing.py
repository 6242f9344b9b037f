"""Checks that a program is valid Python. `up` never starts a program with a syntax error, not even with --no-check."""

from __future__ import annotations

import ast
import warnings
from contextlib import suppress
from pathlib import Path

from clusterkit.check.imports import program_of
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind


def refuse_unparsable(job: JobSpec) -> None:
    """Raise BadJob if the job's program is not valid Python."""
    file, _ = program_of(job)
    if job.program.kind is ProgramKind.COMMAND or file is None or has_own_python(job):
        return
    with suppress(OSError):
        text = file.read_bytes() if file.is_file() else b""
        if (error := syntax_error(text) if is_text(file, text) else None) is not None:
            raise BadJob([f"{shown(file)}:{error.lineno or 1} is not valid Python: {error.msg}."])


def syntax_error(text: bytes) -> SyntaxError | None:
    """Return the syntax error in a text; None if this interpreter accepts the text, or the tasks' interpreter might."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, "program", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except ValueError:  # Python before 3.11.4 raises ValueError for null bytes
        if b"\0" in text:
            line = text[: text.index(b"\0")].count(b"\n") + 1
            return SyntaxError("source code cannot contain null bytes", ("program", line, None, None))
    except (RecursionError, MemoryError):  # the tasks' interpreter may have higher limits
        pass
    return None


def tree_of(text: bytes) -> ast.Module | None:
    """Parse a text, which may be anything; return None if it can't be parsed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def has_own_python(job: JobSpec) -> bool:
    """Return whether some tasks use another Python than clusterkit, one that may accept other syntax."""
    return any(setup.python for setup in job.every_setup.values())


def is_text(path: Path, text: bytes) -> bool:
    """Return whether a file is Python source. Python can also run archives and compiled code."""
    return path.suffix in (".py", ".pyw") or b"\0" not in text


def shown(path: Path) -> str:
    """Return the path for messages: relative to the working directory if the file is below that directory."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

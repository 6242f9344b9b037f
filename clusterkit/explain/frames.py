"""Parses the frames of a traceback, and creates conditions for rows about the code in which an error was raised."""

from __future__ import annotations

import re

from clusterkit.explain.row import HOLDS, Condition, Evidence, Words
from clusterkit.text.lines import is_own
from clusterkit.words.model import Shape

_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+)', re.MULTILINE)
_CODE = re.compile(r'^ *File "([^"\n]+)", line \d+[^\n]*\n([^\n]*)', re.MULTILINE)


def frames_of(text: str) -> list[tuple[str, str]]:
    """Return the file and the line number of each frame in a traceback."""
    return _FRAME.findall(text)


def own_line(text: str) -> str:
    """Return the last line of the program's own code in a traceback, as in `train.py:38`; "" if it has no such line."""
    own = [f"{file.rpartition('/')[2]}:{number}" for file, number in frames_of(text) if is_own(file)]
    return own[-1] if own else ""


def calling(pattern: str) -> Condition:
    """Return a condition that holds if the last line of the program's own code in the traceback matches `pattern`.

    The condition's values are the named groups of the pattern.
    """

    def holds(evidence: Evidence) -> Words | None:
        code = [line for file, line in _CODE.findall(evidence.first.text) if is_own(file)]
        found = re.search(pattern, code[-1]) if code else None
        return None if found is None else found.groupdict()

    return holds


def showing(pattern: str) -> Condition:
    """Return a condition that holds if the error text matches `pattern`."""
    return lambda evidence: HOLDS if re.search(pattern, evidence.first.text, re.MULTILINE) else None


def through(code: str) -> Condition:
    """Return a condition that holds if the traceback contains `code`: a part of a path, a function or a line."""
    return lambda evidence: HOLDS if code in evidence.first.text else None


def not_through(code: str) -> Condition:
    """Return a condition that holds if the traceback does not contain `code`."""
    return lambda evidence: None if code in evidence.first.text else HOLDS


def in_one_worker(pattern: str) -> Condition:
    """Return a condition that holds if `pattern` matches the first failed worker's error, but no other worker's."""

    def holds(evidence: Evidence) -> Words | None:
        several = evidence.job is not None and evidence.job.shape is Shape.MULTI_WORKER and len(evidence.tasks) > 1
        first, *others = (re.search(pattern, task.text, re.MULTILINE) is not None for task in evidence.tasks)
        return HOLDS if several and first and not any(others) else None

    return holds

"""`--progress-regex`: checks that a regular expression can match a step, and finds the step in a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

LONGEST = 1000  # characters; the rest of a line is not searched, since the time can grow polynomially with the length
_LARGEST = (1 << 63) - 1
_DIGITS = len(str(_LARGEST))

# The parser of `re`, which has no public name. Items that this module does not know are accepted.
_parse: Callable[[str], Any] = import_module("re._parser").parse
_NO_DIGITS = ("CATEGORY_NOT_DIGIT", "CATEGORY_SPACE", "CATEGORY_NOT_WORD")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def problem_of(regex: str) -> str | None:
    """Return why this regular expression can't match a step, or None if it may."""
    try:
        groups, parsed = re.compile(regex).groups, _parse(regex)
    except (re.error, RecursionError, OverflowError) as error:
        return f"--progress-regex {regex!r} is not a regular expression: {error}."
    if groups < 1:
        return f"--progress-regex {regex!r} has no group. Put the step in one: 'step (\\d+)'."
    if not any(_may_be_digits(group) for group in _groups(parsed)):
        return f"--progress-regex {regex!r} has no group that can match a number. Put the step in one: 'step (\\d+)'."
    return None


def step_in(groups: Sequence[str | None]) -> int | None:
    """Return the step in the groups of a match, the first group that matched a number; None if there is none."""
    for found in groups:
        if not found or not found.isdecimal() or len(found) > _DIGITS:
            continue
        step = int(found)
        if step <= _LARGEST:
            return step
    return None


def _inner(op: str, value: Any) -> list[Any]:
    """Return the patterns inside an item of a parsed pattern."""
    if op == "BRANCH":
        return list(value[1])
    if op in ("SUBPATTERN", "ATOMIC_GROUP", "POSSESSIVE_REPEAT", "ASSERT", *_REPEATS):
        return [value if op == "ATOMIC_GROUP" else value[-1]]
    return [part for part in value[1:] if part is not None] if op == "GROUPREF_EXISTS" else []


def _groups(pattern: Any) -> list[Any]:
    found = []
    for op, value in pattern:
        if str(op) == "SUBPATTERN" and value[0] is not None:
            found.append(value[-1])
        found += [group for inner in _inner(str(op), value) for group in _groups(inner)]
    return found


def _may_be_digits(pattern: Any) -> bool:
    """Return whether the whole match of a parsed pattern may be a number."""
    return pattern.getwidth()[1] > 0 and all(_item_may(str(op), value) for op, value in pattern)


def _item_may(op: str, value: Any) -> bool:
    """Return whether an item of a parsed pattern may match only digits or the empty string."""
    if op == "LITERAL":
        return chr(value).isdecimal()
    if op == "IN":
        return any(_class_may(str(kind), inner) for kind, inner in value)
    if op == "BRANCH":
        return any(all(_item_may(str(o), v) for o, v in part) for part in value[1])
    if op in (*_REPEATS, "POSSESSIVE_REPEAT") and value[0] == 0:
        return True
    if op in (*_REPEATS, "POSSESSIVE_REPEAT", "SUBPATTERN"):
        return all(_item_may(str(o), v) for o, v in value[-1])
    return True


def _class_may(kind: str, value: Any) -> bool:
    if kind == "LITERAL":
        return chr(value).isdecimal()
    if kind == "RANGE":
        return any(chr(code).isdecimal() for code in range(value[0], value[1] + 1))
    return str(value) not in _NO_DIGITS

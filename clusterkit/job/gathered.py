"""Options as they were gathered from flags and files, with what is wrong with some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

WRONG = "wrong"  # the key under which flags bring their problems: the option's name to sentences


class Gathered(NamedTuple):
    """Those that can be used, the problems with the others, and the names of the others."""

    options: dict[str, Any]
    problems: list[str]
    wrong: frozenset[str]


def merge_options(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Flags over the file: single values replace, environments merge; a program given anew has its own arguments."""
    env = {**(below.get("env") or {}), **(above.get("env") or {})}
    if "program" in above or "module" in above:
        below = {key: value for key, value in below.items() if key not in ("program", "module", "args")}
    return {**below, **above, **({"env": env} if env else {})}


def gathered(flags: Mapping[str, Any]) -> Gathered:
    """The options of flags alone."""
    options = dict(flags)
    wrong: Mapping[str, list[str]] = options.pop(WRONG, {})
    return Gathered(options, [problem for problems in wrong.values() for problem in problems], frozenset(wrong))


def merged(file: Gathered, flags: Gathered) -> Gathered:
    """Both together. A flag that is right makes up for the file's, whose problem is told all the same."""
    wrong = flags.wrong | (file.wrong - flags.options.keys())
    return Gathered(merge_options(file.options, flags.options), [*flags.problems, *file.problems], wrong)

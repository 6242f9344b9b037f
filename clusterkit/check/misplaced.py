"""Finds options of `up` that follow the program, as in `up train.py --workers 2`, and so are passed to the program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from clusterkit.job.options import OPTIONS, OptionKind
from clusterkit.text.spelling import listed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program

_OTHER_FLAGS = ("detach", "continue", "no-wait", "only", "all-output", "log-level", "quiet", "color", "no-color")
_SHOWN = [entry for entry in OPTIONS.values() if not entry.about.hidden]
OPTIONS_OF_UP = frozenset(
    {entry.flag for entry in _SHOWN}
    | {f"--no-{entry.key}" for entry in _SHOWN if entry.kind is OptionKind.SWITCH}
    | {f"--{name}" for name in _OTHER_FLAGS}
)
_REFUSED = r"(?i:unrecogni[sz]ed|unknown|no such|unexpected|invalid)[^\n]*"  # errors of argparse, absl and click


def misplaced(args: Sequence[str]) -> list[str]:
    """Return the names of the options of `up` that are among a program's arguments."""
    names = [arg.partition("=")[0] for arg in takewhile(lambda arg: arg != "--", args)]
    return [name for name in dict.fromkeys(names) if name in OPTIONS_OF_UP]


def refused(job: JobSpec, text: str) -> tuple[str, str] | None:
    """Return the problem and the fix if the program has rejected an option of `up`; otherwise None.

    `text` is the program's output.
    """
    arguments = [job.program.args, *(setup.args or () for setup in job.setups.values())]
    names = [name for name in misplaced([*sum(arguments, ())]) if re.search(_REFUSED + word_pattern(name), text)]
    if not names:
        return None
    they = f"{listed(names)} {'is an option' if len(names) == 1 else 'are options'} of `clusterkit up`"
    return f"{they}, but {job.program} got {pronoun(names)}.", advice(names, job.program)


def word_pattern(name: str) -> str:
    """Return a pattern for the option's name, with dashes or underscores, and with or without the leading dashes."""
    return rf"(?<![A-Za-z0-9]){re.escape(name[2:]).replace(chr(92) + '-', '[-_]')}(?![A-Za-z0-9])"


def advice(names: Sequence[str], program: Program) -> str:
    return f"Write options of `up` before the program: clusterkit up {' '.join(names)} … {program}"


def pronoun(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"

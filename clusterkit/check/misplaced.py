"""Finds options of `up` that were typed after the program, which then receives them: `up train.py --workers 2`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from clusterkit.check.imports import program_files, program_of
from clusterkit.job.options import OPTIONS, Kind
from clusterkit.text.spelling import listed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind

MOST = 300_000  # bytes of a program and its modules that are read at most
_OTHERS = ("detach", "continue", "no-wait", "only", "all-output", "log-level", "quiet", "color", "no-color")
OPTIONS_OF_UP = frozenset(
    {entry.flag for entry in OPTIONS.values()}
    | {f"--no-{entry.key}" for entry in OPTIONS.values() if entry.kind is Kind.SWITCH}
    | {f"--{name}" for name in _OTHERS}
)
_REFUSED = r"(?i:unrecogni[sz]ed|unknown|no such|unexpected|invalid)[^\n]*"  # as argparse, absl and click word it


def misplaced(args: Sequence[str]) -> list[str]:
    """Return the names of options of `up` among a program's arguments."""
    names = [arg.partition("=")[0] for arg in takewhile(lambda arg: arg != "--", args)]
    return [name for name in dict.fromkeys(names) if name in OPTIONS_OF_UP]


def unmentioned(job: JobSpec) -> str | None:
    """Return a warning if the program would receive options of `up` that its own text does not mention."""
    names = misplaced(job.program.args)
    if not names or job.program.kind is ProgramKind.COMMAND:
        return None
    texts = [source.text for source in program_files(*program_of(job), most=MOST)]
    missing = [name for name in names if not any(re.search(_word(name).encode(), text) for text in texts)]
    if not texts or not missing:
        return None
    they = f"{listed(missing)} {'comes' if len(missing) == 1 else 'come'} after {job.program}"
    return f"{they}, which gets but does not mention {_them(missing)}. {_advice(missing, job.program)}"


def refused(job: JobSpec, text: str) -> str | None:
    """Return a hint if `text`, the error of a failed program, shows that the program rejected an option of `up`."""
    given = [job.program.args, *(setup.args or () for setup in job.setups.values())]
    names = [name for name in misplaced([*sum(given, ())]) if re.search(_REFUSED + _word(name), text)]
    if not names:
        return None
    they = f"{listed(names)} {'is an option' if len(names) == 1 else 'are options'} of `clusterkit up`"
    return f"{they}, but {job.program} got {_them(names)}. {_advice(names, job.program)}"


def _word(name: str) -> str:
    """Return a pattern for the option's name, with dashes or underscores, and with or without the leading dashes."""
    return rf"(?<![A-Za-z0-9]){re.escape(name[2:]).replace(chr(92) + '-', '[-_]')}(?![A-Za-z0-9])"


def _advice(names: Sequence[str], program: Program) -> str:
    return f"Write options of `up` before the program: clusterkit up {' '.join(names)} … {program}"


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"

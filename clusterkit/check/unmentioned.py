"""Warns about options of `up` that follow the program on the command line, but that the program does not mention."""

from __future__ import annotations

import re

from clusterkit.check.imports import program_files, program_of
from clusterkit.check.misplaced import advice, misplaced, pronoun, word_pattern
from clusterkit.text.spelling import listed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind

MOST = 300_000  # bytes; the maximum total size of a program and its modules


def unmentioned(job: JobSpec) -> str | None:
    """Return a warning if the program would receive options of `up` that the program's files do not mention."""
    names = misplaced(job.program.args)
    if not names or job.program.kind is ProgramKind.COMMAND:
        return None
    texts = [source.text for source in program_files(*program_of(job), most=MOST)]
    missing = [name for name in names if not any(re.search(word_pattern(name).encode(), text) for text in texts)]
    if not texts or not missing:
        return None
    they = f"{listed(missing)} {'comes' if len(missing) == 1 else 'come'} after {job.program}"
    return f"{they}, which receives but never mentions {pronoun(missing)}. {advice(missing, job.program)}"

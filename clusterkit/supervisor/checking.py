"""Checking: a job's program is read, with its own modules, and held against the job; nothing of it is executed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from clusterkit.hands.imports import Source, imports_tensorflow, places, program_of, sources
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.findings import Finding, Severity, Versions
from clusterkit.words.model import JobSpec, ProgramKind

MOST = 300_000  # bytes of a program's text; the rest of a bigger one is not looked into


class NotChecked(ClusterkitError):
    """The program is none that can be read."""

    exit_code = 2


def refuse_errors(job: JobSpec) -> None:
    """Stop a job whose program is certain to fail. Raises BadJob."""
    try:
        errors = [finding for finding in findings_of(job) if finding.severity is Severity.ERROR]
    except NotChecked:
        return
    if errors:
        raise BadJob([*map(str, errors), "Mend the program or the job, or start it all the same with --force."])


def findings_of(job: JobSpec) -> list[Finding]:
    """What will go wrong, errors first. Raises NotChecked where the program is no Python or can't be read."""
    if job.program.kind is ProgramKind.COMMAND:
        raise NotChecked(f"{job.program} is a command. Only Python programs can be checked.")
    file, root = program_of(job)
    program = sources(file, root)
    if not program or not _is_text(program[0]):
        raise NotChecked(f"The text of {job.program} can't be read. Only Python programs can be checked.")
    from clusterkit.rules.check import check, check_syntax  # so late, since most programs of tests have no TensorFlow
    from clusterkit.rules.source import Text, module_name

    roots = places(root)
    texts = [Text(_shown(source.path), module_name(source.path, roots), source.text) for source in _first(program)]
    if imports_tensorflow(program):
        found = check(texts, job, _versions(job), whole=len(texts) == len(program))
    else:
        found = check_syntax(texts[0])
    if _has_own_python(job) and any(finding.id == "syntax-error" for finding in found):
        raise NotChecked(f"{job.program} is for another Python than clusterkit's own, which can't read it.")
    return found


def _versions(job: JobSpec) -> Versions:
    if _has_own_python(job):
        return Versions()  # of that one nothing is known
    from clusterkit.hands.installed import installed

    env = dict(os.environ)
    for setup in (job.setup, *job.setups.values()):
        env |= setup.env
    return installed(env)


def _has_own_python(job: JobSpec) -> bool:
    return any(setup.python for setup in (job.setup, *job.setups.values()))


def _first(program: Sequence[Source]) -> list[Source]:
    """The program, and as many of its modules as are no more text than may be."""
    found, size = [program[0]], len(program[0].text)
    for source in program[1:]:
        size += len(source.text)
        if size <= MOST:
            found.append(source)
    return found


def _is_text(source: Source) -> bool:
    """Whether it is no archive and no compiled program, which Python runs too."""
    return source.path.suffix in (".py", ".pyw") or (b"\0" not in source.text and len(source.text) < MOST)


def _shown(path: Path) -> str:
    """As the user would name it: from here, where it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

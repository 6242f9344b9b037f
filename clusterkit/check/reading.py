"""Reads and checks a program and its own modules. The files' size is limited, since the files may contain anything."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from clusterkit.check.case import Case, HidingFile
from clusterkit.check.findings import Finding, Location, Severity
from clusterkit.check.imports import ProgramFile, follow, import_roots, imports_tensorflow, program_files, program_of
from clusterkit.check.installed import Installed
from clusterkit.check.parsing import has_own_python, is_text, shown
from clusterkit.check.rules.all_rules import FAILING, GENERAL, RULES, SILENT, check
from clusterkit.check.source import Source
from clusterkit.check.unmentioned import MOST
from clusterkit.job.keras import LEGACY, YES
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Shape

MOST_AT_START = 100_000  # bytes; larger programs are not checked before a run; checking this size takes about 0.5 s
# Modules that Python loads before the program. A file with such a name does not hide the module.
_ALWAYS_LOADED = {*sys.builtin_module_names, "abc", "codecs", "encodings", "io", "os", "posixpath", "site", "stat"}
# What a program mentions that chooses Keras 2 by itself.
_KERAS_2 = re.compile(rf"^tf_keras\b|^{LEGACY}$")
_DEFINED = re.compile(rb"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)


class NotChecked(ClusterkitError):
    """Raised if the program can't be read as Python."""

    exit_code = 2


class Foreseen(NamedTuple):
    """What is known of a program before a run.

    `failures` are findings about lines at which every run of the job fails, and `doubts` about mistakes with which a
    run succeeds but does not train as intended.
    """

    failures: list[Finding]
    doubts: list[Finding]


def foresee(job: JobSpec) -> Foreseen:
    """Check the program of a job before a run.

    If the program can't be checked, nothing is foreseen: a run does not depend on this check.
    """
    rules = (*(FAILING if job.check else ()), *(SILENT if job.shape is not Shape.SINGLE else ()))
    with suppress(Exception):  # the files may contain anything
        file, root = program_of(job)
        followed = follow(file, root, packages=(), most=MOST_AT_START)
        if not followed.left_out:  # otherwise, some files were not read, and findings might be wrong
            found = _checked(job, root, followed.files, strict=True, rules=rules)
            failures = [one for one in found if one.severity is Severity.ERROR and one.id in FAILING]
            return Foreseen(failures, [one for one in found if one.id in SILENT])
    return Foreseen([], [])


def findings_of(job: JobSpec, strict: bool = True) -> list[Finding]:
    """Check the program of a job. Raises NotChecked if the program is not Python or can't be read."""
    file, root = program_of(job)
    files = [] if job.program.kind is ProgramKind.COMMAND else program_files(file, root, most=MOST)
    return _checked(job, root, files, strict, RULES)


def functions_of(job: JobSpec) -> frozenset[str] | None:
    """Return the names of the functions and classes that the program's own files define; None if they are unknown."""
    if job.program.kind is ProgramKind.COMMAND:
        return None
    file, root = program_of(job)
    files = program_files(file, root, most=MOST)
    names = (name.decode(errors="replace") for text, _, _ in files for name in _DEFINED.findall(text))
    return frozenset(names) if files else None


def _checked(
    job: JobSpec, root: Path, files: Sequence[ProgramFile], strict: bool, rules: Collection[str]
) -> list[Finding]:
    if not files or not is_text(files[0].path, files[0].text):
        raise NotChecked(f"{job.program} can't be read as Python. Only Python programs can be checked.")
    if not imports_tensorflow(files):
        rules = [one for one in rules if one in GENERAL]
    hides = list(_hiding_files(root)) if "hides-module" in rules else []
    read: list[Source] = []
    for text, _, path in files:
        try:
            read.append(Source(shown(path), _module(path, import_roots(root)), text, imported=bool(read)))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if not read:
                return [_unreadable(job, path, error)]
    with suppress(RecursionError):
        return check(Case(read, job, _keras(job, read), hides, strict, environment_of(job, root)), rules)
    return []


def environment_of(job: JobSpec, root: Path) -> Installed | None:
    """Return what the tasks can import if they use clusterkit's own environment; otherwise None.

    `root` is the directory from which the program imports its own modules. A module that is loaded before the program
    may change the others.
    """
    paths = [setup.env.get("PYTHONPATH") for setup in job.every_setup.values()]
    if has_own_python(job) or job.hosts.count or job.preload or any(paths):
        return None
    return Installed(import_roots(root))


def _unreadable(job: JobSpec, path: Path, error: BaseException) -> Finding:
    if has_own_python(job) or not isinstance(error, SyntaxError):
        raise NotChecked(f"{job.program} can't be read by clusterkit's own Python: {error}.")
    what = f"This is not valid Python: {error.msg}."
    return Finding("syntax-error", Location(shown(path), error.lineno or 1), what, "Correct it.", "", Severity.ERROR)


def _hiding_files(root: Path) -> Iterator[HidingFile]:
    """Yield the files next to the program that shadow a standard module or a package that TensorFlow requires."""
    with suppress(OSError):
        for name in sorted(path.name for path in islice(root.iterdir(), 10_000)):
            module = name.removesuffix(".py")
            path = root / name if name != module else root / name / "__init__.py"
            if module in _ALWAYS_LOADED or not module.isidentifier() or not path.is_file():
                continue
            if module in sys.stdlib_module_names:
                yield HidingFile(shown(path), module, "Python's own module")
            elif module in _packages():
                yield HidingFile(shown(path), module, "the package")


@functools.cache
def _packages() -> set[str]:
    """Return the import names of TensorFlow, Keras and the packages that they require."""
    packages, todo = {"tensorflow", "keras", "tf_keras", "numpy"}, ["tensorflow", "keras"]
    for name in tuple(todo):
        with suppress(metadata.PackageNotFoundError):
            todo += [re.split(r"[^\w.-]", line)[0] for line in metadata.requires(name) or () if "extra ==" not in line]
    for name in set(todo):
        with suppress(metadata.PackageNotFoundError):
            distribution = metadata.distribution(name)
            listed = (distribution.read_text("top_level.txt") or "").split()
            packages |= {*listed} or {file.parts[0].removesuffix(".py") for file in distribution.files or ()}
    return packages


def _keras(job: JobSpec, sources: Sequence[Source]) -> int:
    """Return the major version of Keras whose models the program trains, as far as can be told."""
    if job.keras:
        return job.keras
    envs = [os.environ, job.setup.env, *(setup.env for setup in job.setups.values())]
    if any(env.get(LEGACY) in YES for env in envs):
        return 2
    return 2 if any(source.mentions(_KERAS_2) for source in sources) else 3


def _module(file: Path, roots: list[Path]) -> str:
    """Return the name under which a file is imported."""
    for root in roots:
        if file.is_relative_to(root):
            parts = file.relative_to(root).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return file.stem

"""Finds the imports in a program's text, and follows them to the program's own modules, not to installed packages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind

# Matches an import at the start of a line or statement: `from X import`, with or without parentheses, or `import X`.
_IMPORT = re.compile(
    rb"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]*import\b[ \t]*(?:\(((?:[^)#]|#[^\n]*+)*+)|([\w ,\t]*))"
    rb"|import[ \t]+([\w., \t]+))",
    re.M,
)
_COMMENT = re.compile(rb"#[^\n]*")
_TENSORFLOW = re.compile(r"tensorflow(?:_\w+)?|keras|tf_keras")
# If a program imports clusterkit, this import is not followed: clusterkit imports TensorFlow only if the program does,
# and sets no environment variables.
OWN_PACKAGE = "clusterkit"
MOST_FILES = 300  # the maximum number of files whose imports are followed


class ProgramFile(NamedTuple):
    """A file of a program: the text, the names that the text imports, and the path."""

    text: bytes
    names: tuple[str, ...]
    path: Path


class Followed(NamedTuple):
    """The files of a program that were read, and those that were skipped because of a limit."""

    files: list[ProgramFile]
    left_out: list[Path]


def program_files(
    file: Path | None, root: Path, packages: Iterable[Path] = (), most: int = sys.maxsize
) -> list[ProgramFile]:
    """Return a program's file and the files that it imports, in the order in which `follow` finds the files."""
    return follow(file, root, packages, most).files


def follow(file: Path | None, root: Path, packages: Iterable[Path], most: int, others: Sequence[Path] = ()) -> Followed:
    """Follow a program's imports recursively. Modules are searched for in `root`, PYTHONPATH and `others`.

    Args:
        file: the program; if `file` is None or missing, no files are returned.
        root: the directory from which the program imports its own modules.
        packages: more files with imports to follow, such as the result of `packages_of`.
        most: the maximum total size of the files in bytes; a file that would exceed this limit is skipped.
        others: more directories from which the program may import modules.
    """
    files, left_out = list[ProgramFile](), list[Path]()
    roots, todo, seen = [*import_roots(root), *others], [], set[Path]()
    if file is not None and os.path.isfile(file):
        todo = [*packages, file]
    while todo and len(seen) < MOST_FILES:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            if (size := path.stat().st_size) > most:
                left_out.append(path)
                continue
            text = path.read_bytes()
        except OSError:
            continue
        most -= size
        names = tuple(_names(text))
        files.append(ProgramFile(text, names, path))
        for name in names:
            if name.partition(".")[0] != OWN_PACKAGE:
                todo += files_of(name, path, roots)
    return Followed(files, [*left_out, *(path for path in dict.fromkeys(todo) if path not in seen)])


def imports_tensorflow(program: Iterable[ProgramFile]) -> bool:
    """Return whether one of the files imports TensorFlow or Keras.

    The text is searched, not parsed, so the program may be written for another version of Python.
    """
    return any(_TENSORFLOW.fullmatch(name.partition(".")[0]) for source in program for name in source.names)


def program_of(job: JobSpec) -> tuple[Path | None, Path]:
    """Return the program's file (None if unknown) and the directory from which the program imports its own modules."""
    cwd = Path(job.setup.cwd or ".").absolute()
    if job.program.kind is ProgramKind.MODULE:
        return module_file(job.program.target, cwd), cwd
    file = Path(os.path.realpath(cwd / job.program.target))
    return file, file.parent


def module_file(name: str, root: Path) -> Path | None:
    """Return the file that `python -m NAME` runs, if the file is in `root` or PYTHONPATH; otherwise None."""
    for place in (directory.joinpath(*name.split(".")) for directory in import_roots(root)):
        for path in (place / "__main__.py", place.with_name(f"{place.name}.py")):
            if os.path.isfile(path):
                return path
    return None


def packages_of(job: JobSpec, root: Path) -> list[Path]:
    """Return the `__init__.py` files that `python -m NAME` executes before the module itself."""
    files = files_of(job.program.target, root, import_roots(root)) if job.program.kind is ProgramKind.MODULE else []
    return [path for path in files if path.name == "__init__.py"]


def import_roots(root: Path) -> list[Path]:
    """Return the directories from which a program imports its own modules: `root` and PYTHONPATH."""
    return [root, *map(_absolute, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]


def _absolute(path: str) -> Path:
    try:
        return Path(os.path.abspath(path))
    except FileNotFoundError:  # the current directory has been deleted, so nothing can be imported from it
        return Path(path)


def _names(text: bytes) -> Iterator[str]:
    """Yield the names that source code imports.

    For `from package import name`, also yield `package.name`, since `name` may be a module.
    """
    text = re.sub(rb"\\\r?\n", b" ", text.removeprefix(b"\xef\xbb\xbf"))
    for source, enclosed, imported, plain in _IMPORT.findall(text):
        base = source.decode(errors="replace")
        if base:
            yield base
        items = _COMMENT.sub(b"", enclosed) or imported or plain
        for item in items.decode(errors="replace").split(","):
            name = item.split()[0] if item.split() else ""
            if name:
                yield f"{base}{'' if base.endswith('.') else '.'}{name}" if base else name


def files_of(name: str, importer: Path, roots: list[Path]) -> list[Path]:
    """Return the files that are executed when `importer` imports `name`; `roots` is the result of `import_roots`."""
    dots = len(name) - len(name.lstrip("."))
    if dots:
        roots = [importer.parents[min(dots - 1, len(importer.parents) - 1)]]
    files = []
    for directory in roots:
        for part in name.lstrip(".").split("."):
            files += [directory / part / "__init__.py", directory / f"{part}.py"]
            directory /= part
    # Path.is_file is not used, since it raises for an unreadable directory and for a name that is too long.
    return [path for path in files if os.path.isfile(path)]

"""What a program imports, as its text says: its own modules are followed, installed ones are only named."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind

# At the beginning of a line or of a statement; the names behind `from X import`, perhaps in parentheses, or `import`.
_IMPORT = re.compile(
    rb"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]*import\b[ \t]*(?:\(((?:[^)#]|#[^\n]*+)*+)|([\w ,\t]*))"
    rb"|import[ \t]+([\w., \t]+))",
    re.M,
)
_COMMENT = re.compile(rb"#[^\n]*")
_TENSORFLOW = re.compile(r"tensorflow(?:_\w+)?|keras|tf_keras")
OURS = "clusterkit"  # known, and not looked into: it sets nothing, and imports TensorFlow when a program does
MOST = 300  # files that are looked into


class Source(NamedTuple):
    """A file of a program: its text, the names that it imports, and where it is."""

    text: bytes
    names: tuple[str, ...]
    path: Path


def sources(file: Path | None, root: Path, packages: Iterable[Path] = (), most: int = sys.maxsize) -> list[Source]:
    """A program's file, and those of what it and its packages import from the directory `root` or from PYTHONPATH.

    A file is left out that, with those before it, has more than `most` bytes.
    """
    found = []
    roots, todo, seen = places(root), [], set[Path]()
    if file is not None and os.path.isfile(file):
        todo = [*packages, file]
    while todo and len(seen) < MOST:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            if (size := path.stat().st_size) > most:
                continue
            text = path.read_bytes()
        except OSError:
            continue
        most -= size
        names = tuple(_names(text))
        found.append(Source(text, names, path))
        for name in names:
            if name.partition(".")[0] != OURS:
                todo += files_of(name, path, roots)
    return found


def imports_tensorflow(program: Iterable[Source]) -> bool:
    """Whether one of the files imports TensorFlow or Keras.

    Their texts are searched, not parsed: a file that only another Python can read is no reason to fail.
    """
    return any(_TENSORFLOW.fullmatch(name.partition(".")[0]) for source in program for name in source.names)


def program_of(job: JobSpec) -> tuple[Path | None, Path]:
    """The program's file, where it can be found, and the directory from which it imports its own modules."""
    cwd = Path(job.setup.cwd or ".").absolute()
    if job.program.kind is ProgramKind.MODULE:
        return module_file(job.program.target, cwd), cwd
    file = Path(os.path.realpath(cwd / job.program.target))
    return file, file.parent


def module_file(name: str, root: Path) -> Path | None:
    """The file that `python -m NAME` runs, where it is below `root` or PYTHONPATH."""
    for place in (directory.joinpath(*name.split(".")) for directory in places(root)):
        for path in (place / "__main__.py", place.with_name(f"{place.name}.py")):
            if os.path.isfile(path):
                return path
    return None


def packages_of(job: JobSpec, root: Path) -> list[Path]:
    """What `python -m NAME` executes before the file of that name."""
    found = files_of(job.program.target, root, places(root)) if job.program.kind is ProgramKind.MODULE else []
    return [path for path in found if path.name == "__init__.py"]


def places(root: Path) -> list[Path]:
    """The directories that a program's own modules are imported from."""
    return [root, *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]


def _names(text: bytes) -> Iterator[str]:
    """Module names, also such as may be a function's: `from package import name`."""
    text = re.sub(rb"\\\r?\n", b" ", text.removeprefix(b"\xef\xbb\xbf"))
    for source, enclosed, imported, plain in _IMPORT.findall(text):
        base = source.decode(errors="replace")
        if base:
            yield base
        words = _COMMENT.sub(b"", enclosed) or imported or plain
        for word in words.decode(errors="replace").split(","):
            name = word.split()[0] if word.split() else ""
            if name:
                yield f"{base}{'' if base.endswith('.') else '.'}{name}" if base else name


def files_of(name: str, importer: Path, roots: list[Path]) -> list[Path]:
    """The files that are executed where `importer` imports `name`; `roots` are what `places` has given."""
    dots = len(name) - len(name.lstrip("."))
    if dots:
        roots = [importer.parents[min(dots - 1, len(importer.parents) - 1)]]
    found = []
    for directory in roots:
        for part in name.lstrip(".").split("."):
            found += [directory / part / "__init__.py", directory / f"{part}.py"]
            directory /= part
    # Not Path.is_file, which raises where a directory is closed to us or a name is too long to be one.
    return [path for path in found if os.path.isfile(path)]

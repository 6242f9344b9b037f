"""The current state of a program's own files: their names and contents, and whether the program can run.

The files may contain anything and change at any time. Files that are too large are not read.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from clusterkit.check.imports import ProgramFile, files_of, follow, import_roots, module_file, packages_of, program_of
from clusterkit.check.parsing import has_own_python, is_text, syntax_error, tree_of
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind

MOST = 8 << 20  # bytes; the maximum total size of the files that are read
LONGEST_LINE = 100  # characters; longer lines are cut in messages
_PACKAGES = {"site-packages", "dist-packages"}


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """A program's file and the program's own modules, without Python's standard library and installed packages.

    `digests` has an entry for each file; `texts` has one for each file that was read. `program` is None if the
    program's file can't be found. `omitted` has modules that exceed a limit. Neither these modules nor the modules that
    they import are among the files.
    """

    program: Path | None
    root: Path
    digests: Mapping[Path, str] = field(default_factory=dict)
    texts: Mapping[Path, bytes] = field(default_factory=dict)
    omitted: tuple[Path, ...] = ()
    link: Path | None = None  # the program's path as the user gave it, which may be a symbolic link

    def changed_since(self, before: OwnFiles) -> list[Path]:
        """Return the files that were changed, added or removed since the files `before` were read."""
        paths = {*self.digests, *before.digests}
        return sorted(path for path in paths if self.digests.get(path) != before.digests.get(path))

    def name(self, path: Path) -> str:
        """Return a file's name for messages: relative to the program's directory if the directory contains the file."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def directories(self) -> list[Path]:
        """Return the directories of these files, and the directories above them, up to the program's directory."""
        directories = {self.root, *(path.parent for path in self.digests), *([self.link.parent] if self.link else [])}
        for path in [path for path in directories if path.is_relative_to(self.root)]:
            directories.update(place for place in path.parents if place.is_relative_to(self.root))
        return sorted({_existing(path) for path in directories})


def own_files(job: JobSpec) -> OwnFiles:
    """Read the files of a job's program."""
    file, root = program_of(job)
    if job.program.kind is ProgramKind.COMMAND:
        executable = shutil.which(job.program.target)
        file = Path(executable) if executable and "/" not in job.program.target else file
        return _read(file, root, ())
    others = _added_paths()
    if job.program.kind is ProgramKind.MODULE and file is None:
        file = next(filter(None, (module_file(job.program.target, place) for place in others)), None)
    places = [*import_roots(root), *others]
    preloaded = [path for name in job.preload for path in files_of(name, root / "-", places)]
    sources, left_out = follow(file, root, [*packages_of(job, root), *preloaded], MOST, others)
    beyond = [path for path in left_out if _is_own(path) and path != file]  # `_read` handles the program's own file
    link = None if job.program.kind is ProgramKind.MODULE else Path(job.setup.cwd or ".", job.program.target)
    return replace(_read(file, root, sources), omitted=tuple(beyond), link=link)


def problem_of(now: OwnFiles, before: OwnFiles, job: JobSpec) -> str:
    """Return a clause about a missing or invalid file that keeps the program from running; "" if there is no such file.

    `before` is the last known state of the files in which the program could run. Files that have not changed since then
    are not checked.
    """
    if now.program is None or now.program not in now.digests:
        return f"{job.program.target} is gone"
    if job.program.kind is ProgramKind.COMMAND:
        return ""
    for path in now.changed_since(before) if not has_own_python(job) else ():
        text = now.texts.get(path)
        if text is not None and is_text(path, text) and (error := syntax_error(text)) is not None:
            return f"{now.name(path)}:{error.lineno or 1} is not valid Python: {error.msg}{_line(text, error)}"
    return _missing(now, before)


def _line(text: bytes, error: SyntaxError) -> str:
    lines = text.splitlines()
    number = error.lineno or 0
    line = lines[number - 1].strip()[:LONGEST_LINE].decode(errors="replace") if 0 < number <= len(lines) else ""
    return f" in `{line}`" if line else ""


def _missing(now: OwnFiles, before: OwnFiles) -> str:
    """Return a clause about a removed module that a file imports unconditionally; "" if there is no such module."""
    removed = {path for path in before.digests if path not in now.digests and not os.path.isfile(path)}
    places = [*import_roots(now.root), *_added_paths()]
    for importer, text in now.texts.items() if removed else ():
        for name in _required_names(text):
            candidates = _candidates(name, importer, places)
            lost = [path for path in candidates if path in removed]
            if lost and not any(map(os.path.isfile, candidates)):
                return f"{now.name(lost[0])} is gone, and {now.name(importer)} imports it"
    return ""


def _required_names(text: bytes) -> Iterator[str]:
    """Yield the names that a file imports. Skip imports inside `try`, since the file may handle a missing module."""
    tree = tree_of(text)
    todo: list[ast.AST] = [] if tree is None else [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            yield from (f"{base}{'' if base.endswith('.') else '.'}{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.Try | ast.TryStar):
            todo += ast.iter_child_nodes(node)


def _candidates(name: str, importer: Path, places: Iterable[Path]) -> list[Path]:
    """Return the files from which a name may be imported, including files that do not exist."""
    dots = len(name) - len(name.lstrip("."))
    if dots:
        places = [importer.parents[min(dots - 1, len(importer.parents) - 1)]]
    parts = name.lstrip(".").split(".")
    bases = [place.joinpath(*parts) for place in places] if parts[-1] else []
    return [path for base in bases for path in (base / "__init__.py", base.with_name(f"{base.name}.py"))]


def _read(file: Path | None, root: Path, sources: Iterable[ProgramFile]) -> OwnFiles:
    own = {source.path: source.text for source in sources if _is_own(source.path)}
    digests = {path: hashlib.sha256(text).hexdigest() for path, text in own.items()}
    # The program's file is not in `sources` if the file is too large or unreadable, or if the program is a command.
    if file is not None and file not in digests and os.path.isfile(file):
        with suppress(OSError):
            stat = file.stat()
            digests[file] = f"{stat.st_mtime_ns} {stat.st_size} {stat.st_ino}"
    return OwnFiles(file, root, digests, own)


def _is_own(path: Path) -> bool:
    return not (_PACKAGES & {*path.parts} or path.is_relative_to(sysconfig.get_path("stdlib")))


def _added_paths() -> list[Path]:
    """Return the directories of editable installations in `sys.path`."""
    directories = [Path(entry) for entry in sys.path[1:] if os.path.isdir(entry)]
    return [path for path in directories if _is_own(path) and not path.is_relative_to(sys.base_prefix)]


def _existing(path: Path) -> Path:
    """Return the path if it is a directory, otherwise the nearest existing directory above the path."""
    while not os.path.isdir(path) and path != path.parent:
        path = path.parent
    return path

"""What a program imports, as its text says: its own modules are followed, installed ones are only named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b[ \t(]*([\w ,\t]*)|import[ \t]+([\w., \t]+))", re.M)
_TENSORFLOW = re.compile(r"tensorflow(?:_\w+)?|keras|tf_keras")
MOST = 300  # files that are looked into


def imports_tensorflow(file: Path | None, root: Path) -> bool:
    """Whether a program, or what it imports from the directory `root` or from PYTHONPATH, imports TensorFlow or Keras.

    The text is searched, not parsed: a file that only another Python can read is no reason to fail.
    """
    roots = [root, *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
    todo, seen = [file] if file is not None else [], set[Path]()
    while todo and len(seen) < MOST:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in _names(path):
            if _TENSORFLOW.fullmatch(name.partition(".")[0]):
                return True
            todo += _files(name, path, roots)
    return False


def module_file(name: str, root: Path) -> Path | None:
    """The file that `python -m NAME` runs, where it is below `root` or PYTHONPATH."""
    roots = [root, *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
    found = [*_files(f"{name}.__main__", root, roots), *_files(name, root, roots)]
    return found[-1] if found else None


def _names(path: Path) -> Iterator[str]:
    """Module names, also such as may be a function's: `from package import name`."""
    try:
        text = path.read_bytes()
    except OSError:
        return
    for source, imported, plain in _IMPORT.findall(text):
        base = source.decode(errors="replace")
        if base:
            yield base
        for word in (imported or plain).decode(errors="replace").split(","):
            name = word.split()[0] if word.split() else ""
            if name:
                yield f"{base}{'' if base.endswith('.') else '.'}{name}" if base else name


def _files(name: str, importer: Path, roots: list[Path]) -> list[Path]:
    dots = len(name) - len(name.lstrip("."))
    if dots:
        roots = [importer.parents[min(dots - 1, len(importer.parents) - 1)]]
    parts = name.lstrip(".").split(".")
    found = []
    for root in roots:
        for end in range(1, len(parts) + 1):
            place = root.joinpath(*parts[:end])
            found += [path for path in (place / "__init__.py", place.with_name(f"{place.name}.py")) if path.is_file()]
    return found

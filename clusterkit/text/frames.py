"""Finds the package that owns the code in a stack frame or a line of a traceback."""

from __future__ import annotations

import re

_PACKAGE = re.compile(r"/(?:(?:site|dist)-packages/|(?=clusterkit/(?:task|warm|training)/.*\.py$))([^/]+)")
_CYTHON = re.compile(r"^(\w+)/[\w/]*\.pyx$")  # source names in tracebacks of compiled modules
_STANDARD = re.compile(r"/lib(?:64)?/python3[^/]*/|^<frozen ")
_GENERATED = "/__autograph_generated_file"


def owner_of(file: str) -> str:
    """Return the package that a file belongs to: `Python` for the standard library, "" for the program's own files."""
    if package := _PACKAGE.search(file) or _CYTHON.search(file):
        return package[1].removesuffix(".py")
    return "Python" if _STANDARD.search(file) else "tensorflow" if _GENERATED in file else ""


def is_own(file: str) -> bool:
    """Whether a frame's file belongs to the program, not to a library, and is not text that was executed."""
    return not file.startswith("<") and not owner_of(file)

"""A program's files as syntax trees, and what each of them says of itself before it is followed."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from pathlib import PurePath
from typing import NamedTuple

from clusterkit.words.findings import Place


class Text(NamedTuple):
    """A file of a program: how people call it, by which name it is imported, and its text."""

    file: str
    module: str
    source: bytes


class Unreadable(Exception):
    """A file is no Python that this interpreter can read."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why


class Module(NamedTuple):
    """A file's tree."""

    file: str
    name: str
    tree: ast.Module
    is_package: bool = False

    def place(self, node: ast.AST) -> Place:
        """Where a node stands."""
        return Place(self.file, getattr(node, "lineno", 1))


def parse(text: Text) -> Module:
    """Read a file. Raises Unreadable."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return Module(text.file, text.module, ast.parse(text.source), text.file.endswith("__init__.py"))
    except SyntaxError as error:
        raise Unreadable(Place(text.file, error.lineno or 1), error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(Place(text.file, 1), str(error)) from None


def module_name(file: PurePath, roots: Iterable[PurePath]) -> str:
    """By which name a file is imported from one of the directories; its own name where that is none of them."""
    for root in roots:
        if file.is_relative_to(root):
            parts = file.relative_to(root).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return file.stem

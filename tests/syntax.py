"""What the house rules ask of the package's files: their syntax trees, read once."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


def short(path: Path) -> str:
    """A file's name in a message."""
    return str(path.relative_to(ROOT))


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a file."""

    name: str
    lines: int
    parameters: int
    documented: bool


@dataclass(frozen=True, slots=True)
class File:
    """What the rules ask of a file: its lines, and what is anywhere in it, also inside functions."""

    lines: int
    documented: bool
    imports: tuple[str, ...]
    functions: tuple[Function, ...]
    classes: tuple[str, ...]
    calls: frozenset[str]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of a function's parameters, without `self` and `cls`."""
    of = function.args
    return [one.arg for one in (*of.posonlyargs, *of.args, *of.kwonlyargs) if one.arg not in ("self", "cls")]


@cache
def read(path: Path) -> File:
    """Read a file's syntax tree, once."""
    text = path.read_text()
    tree = ast.parse(text)
    imports, functions, classes, calls = list[str](), list[Function](), list[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{short(path)} has a relative import"
            assert node.module is not None
            imports += (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            functions.append(Function(node.name, lines, len(parameters(node)), bool(ast.get_docstring(node))))
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            calls.add(ast.unparse(node.func))
    documented = bool(ast.get_docstring(tree))
    lines = len(text.splitlines())
    return File(lines, documented, tuple(imports), tuple(functions), tuple(classes), frozenset(calls))

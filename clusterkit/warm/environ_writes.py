"""Finds writes to `os.environ` in a program's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_NAMES = ("environ", "environb")
_LOW_LEVEL = ("putenv", "unsetenv")  # functions that change the C library's environment but not os.environ


class Write(NamedTuple):
    """A write to `os.environ`. If `value` is None and `is_known` is True, the write deletes the variable."""

    name: str | None  # the name of the variable; None if the code computes the name
    value: str | None = None
    is_known: bool = False  # True if the effect is known: the write deletes the variable, or its value is a constant
    is_default: bool = False  # True for `setdefault`, which has no effect if the variable is already set


def executed(root: ast.AST, sure: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield (node, sure) for `root` and its descendants; `sure` is True if the program certainly executes the node."""
    yield root, sure
    always: list[ast.AST]
    maybe: list[ast.AST]
    match root:
        case ast.Lambda():
            return
        case ast.IfExp(test=first, body=body, orelse=orelse):
            always, maybe = [first], [body, orelse]
        case ast.BoolOp(values=[first, *others]):
            always, maybe = [first], [*others]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            always, maybe = [], list(ast.iter_child_nodes(root))
        case _:
            always, maybe = list(ast.iter_child_nodes(root)), []
    for nodes, reached in ((always, sure), (maybe, False)):
        for node in nodes:
            yield from executed(node, reached)


def is_environ(node: ast.AST, aliases: Iterable[str] = ()) -> bool:
    """Return whether the node is `os.environ` or one of its aliases."""
    match node:
        case ast.Attribute(attr=name):
            return name in _NAMES
        case ast.Name(id=name):
            return name in _NAMES or name in aliases
    return False


def writes(node: ast.AST, aliases: Iterable[str] = ()) -> Iterator[Write]:
    """Yield the writes to `os.environ` by this node (an assignment, deletion or call), without its descendants."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Subscript) and is_environ(target.value, aliases):
                    yield _written(target.slice, value)
                elif isinstance(target, ast.Tuple | ast.List):
                    yield from _unknown(target.elts, aliases)
        case ast.Delete(targets=targets):
            for target in targets:
                if isinstance(target, ast.Subscript) and is_environ(target.value, aliases):
                    yield Write(_text(target.slice), None, is_known=True)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _unknown([target], aliases)
        case ast.Call(func=ast.Attribute(value=place, attr=method)) if is_environ(place, aliases):
            yield from _called(method, node)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[key, *_]) if name in _LOW_LEVEL:
            yield Write(_text(key))


def _unknown(targets: Iterable[ast.expr], aliases: Iterable[str]) -> Iterator[Write]:
    for target in targets:
        if is_environ(target, aliases):
            yield Write(None)
        elif isinstance(target, ast.Subscript) and is_environ(target.value, aliases):
            yield Write(_text(target.slice))


def _called(method: str, call: ast.Call) -> Iterator[Write]:
    match method, call.args:
        case "__setitem__", [key, value]:
            yield _written(key, value)
        case "setdefault", [key, value]:
            yield _written(key, value)._replace(is_default=True)
        case "pop" | "__delitem__", [key, *_]:
            yield Write(_text(key), None, is_known=True)
        case "update", [] | [ast.Dict()]:
            for table in call.args:
                assert isinstance(table, ast.Dict)
                yield from map(_written, table.keys, table.values)
            for keyword in call.keywords:
                yield _written(None if keyword.arg is None else ast.Constant(keyword.arg), keyword.value)
        case "setdefault" | "update" | "clear" | "popitem", _:
            yield Write(None)


def _written(key: ast.expr | None, value: ast.expr) -> Write:
    text = _text(value)
    return Write(_text(key), text, is_known=text is not None)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

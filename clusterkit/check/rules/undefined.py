"""The rule about names that a program uses, but that nothing defines, so that Python raises NameError."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.findings import Severity
from clusterkit.check.source import Source, handles
from clusterkit.text.spelling import closest

_KNOWN = {*dir(builtins), "_", "display", "get_ipython", "reveal_type", "WindowsError"}  # defined by Python or by tools
# A program that uses one of these functions may define any name.
_DEFINERS = {"exec", "eval", "globals", "locals", "vars", "__getattr__", "setattr"}
_DEFINING_ATTRIBUTES = {"modules", "__dict__", "_convert_"}  # attributes through which code may define any name
_HANDLERS = re.compile(r"'(?:NameError|Exception|BaseException)'|suppress|raises")
_VERSION_TESTS = re.compile(r"version|PY2|PY3|'hasattr'|__builtins__")  # code for another version of Python


def undefined_name(case: Case) -> Iterator[Hit]:
    """Find uses of names that no module of the program defines. A run may reach such a use only after hours."""
    if any(source.mentions(re.compile(r"^builtins$")) for source in case.sources):
        return
    nodes = (node for source in case.sources for node in source.nodes)
    defined = _KNOWN | {  # another module may define a name here, as in `config.DEBUG = True`
        node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for source in case.sources:
        for name, uses in _undefined_uses(source, defined).items():
            sure = [use for use in uses if case.strict and case.applies(source, use)]
            use = (sure or uses)[0]
            close = closest(name, defined | source.bindings.names())
            fate = "every run fails at this line" if sure else "a run that gets to this line fails"
            yield Hit(
                source.location(use),
                f"The name {name} is not defined anywhere, so {fate}.",
                f"Did you mean {close}?" if close else "Define or import the name.",
                name,
                Severity.ERROR if sure else Severity.WARNING,
            )


def _undefined_uses(source: Source, defined: set[str]) -> dict[str, list[ast.Name]]:
    """Return the uses of each name that no scope of the file binds; {} if the file may bind names dynamically."""
    names = [node for node in source.nodes if isinstance(node, ast.Name)]
    own = source.bindings.names()
    bound = defined | own
    defining = any(isinstance(node, ast.Attribute) and node.attr in _DEFINING_ATTRIBUTES for node in source.nodes)
    if defining or "*" in bound or not _DEFINERS.isdisjoint(own | {node.id for node in names}):
        return {}
    skipped = {id(inner) for node in source.nodes for part in _unchecked_parts(node) for inner in ast.walk(part)}
    uses: dict[str, list[ast.Name]] = {}
    for node in sorted(names, key=lambda node: (node.lineno, node.col_offset)):
        if node.id not in bound and id(node) not in skipped and not re.fullmatch("__.*__", node.id):
            uses.setdefault(node.id, []).append(node)
    return uses


def _unchecked_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node in which undefined names are allowed: annotations, and code that handles NameError."""
    match node:
        case ast.arg(annotation=ast.expr() as part) | ast.AnnAssign(annotation=part):
            yield part
        case ast.FunctionDef(returns=ast.expr() as part) | ast.AsyncFunctionDef(returns=ast.expr() as part):
            yield part
        case ast.Try(body=body) | ast.TryStar(body=body) | ast.With(body=body) | ast.AsyncWith(body=body):
            if handles(node, _HANDLERS):
                yield from body
        case ast.If(test=test) | ast.IfExp(test=test):
            if _VERSION_TESTS.search(ast.dump(test)):
                yield node
    if type(node).__name__ in ("TypeAlias", "TypeVar"):  # nodes of Python 3.12, which are evaluated only on demand
        yield node

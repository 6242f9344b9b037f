"""A file of a program as a syntax tree: what its names mean, and what is evaluated in every run.

Nothing is executed or followed. A name has a meaning where the file binds it once (or imports it more often, and always
the same); of any other name no rule speaks.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator

from clusterkit.check.findings import Location

_ALIAS = re.compile(r"(?<=^tensorflow\.)(?:compat\.v2\.|_api\.v2\.)|(?<=^tensorflow\.distribute\.)experimental\.")
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PERHAPS = (  # what is in them may not be evaluated
    *(ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.TryStar, ast.Match, ast.Lambda, ast.AsyncFunctionDef, ast.AsyncWith),
    *_LOOPS,
)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)
_EXITS = {"exit", "_exit", "quit", "abort", "serve"}
_NEVER_SWALLOWS = {"scope", "device", "open"}  # context managers that let every exception through


class Source:
    """A parsed file. Raises SyntaxError, ValueError, RecursionError or MemoryError for what can't be parsed."""

    def __init__(self, file: str, module: str, text: bytes) -> None:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
        self.file, self.module, self.nodes = file, module, list(ast.walk(tree))
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._imports: defaultdict[str, set[str]] = defaultdict(set)
        self._values: defaultdict[str, list[ast.AST | None]] = defaultdict(list)
        self._uses: defaultdict[str, list[ast.AST]] = defaultdict(list)
        for node in self.nodes:
            self._bind(node)
        self._sure: dict[ast.AST, bool] = {}
        self._ends: dict[ast.AST, bool] = {}

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.partition(".")[0]
                    self._imports[alias.asname or top].add(alias.name if alias.asname else top)
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    self._imports[alias.asname or alias.name].add(f"{'.' * level}{module or ''}.{alias.name}")
            case ast.Name(id=name, ctx=ast.Load()):
                self._uses[name].append(node)
            case ast.Name(id=name):
                parent = self._parents[node]
                is_plain = isinstance(parent, ast.Assign) and parent.targets == [node]
                self._values[name].append(parent.value if isinstance(parent, ast.Assign) and is_plain else None)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._values[name].append(node)
            case ast.arg(arg=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                self._values[name].append(None)

    def place(self, node: ast.AST) -> Location:
        """Where a node stands."""
        return Location(self.file, getattr(node, "lineno", 1))

    def value(self, name: str) -> ast.AST | None:
        """The one value, function or class that the file binds the name to; None where that is not certain."""
        values = self._values[name]
        return values[0] if len(values) == 1 and not self._imports[name] else None

    def dotted(self, node: ast.AST | None) -> str:
        """`tensorflow.distribute.Server` for `tf.distribute.Server`; empty for what has no certain meaning."""
        rest, seen = "", set[ast.AST | None]()
        while node not in seen:
            seen.add(node)
            if isinstance(node, ast.Attribute):
                rest, node = f".{node.attr}{rest}", node.value
            elif isinstance(node, ast.Name):
                if len(self._imports[node.id]) == 1 and not self._values[node.id]:
                    name = _ALIAS.sub("", next(iter(self._imports[node.id])) + rest)
                    return name.removeprefix("tensorflow.") if name.startswith("tensorflow.keras.") else name
                node = self.value(node.id)
        return ""

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Every call, with the name of what it calls."""
        return ((self.dotted(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    def fixed(self, node: ast.AST | None) -> list[str] | None:
        """The texts in a value that is written here, and so is the same in every task; None for any other."""
        match node:
            case ast.Constant(value=value):
                return [value] if isinstance(value, str) else []
            case ast.Dict(keys=[*keys], values=parts):
                inside = [*map(self.fixed, keys), *map(self.fixed, parts)]
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                inside = [*map(self.fixed, parts)]
            case ast.Call(func=func, args=[value]) if self.dotted(func) == "json.dumps":
                return self.fixed(value)
            case ast.Name(id=name):  # `config["task"]["index"] = 1` may change it
                changed = any(isinstance(self._parents[u], ast.Subscript | ast.Attribute) for u in self._uses[name])
                return None if changed else self.fixed(self.value(name))
            case _:
                return None
        return None if None in inside else [text for texts in inside for text in texts or ()]

    def before(self, node: ast.AST) -> Iterator[ast.AST]:
        """What is evaluated before the node whenever the node is: the simple statements above it in its blocks."""
        for earlier in self._above(node):
            if isinstance(earlier, _SIMPLE):
                yield from _inside(earlier, (*_LATER, *_PERHAPS))

    def is_sure(self, node: ast.AST) -> bool:
        """Whether every run of this file evaluates the node: no condition, loop or way out stands before it."""
        if node not in self._sure:
            self._sure[node] = False  # where a function calls itself, that call is no answer
            parent = self._parents.get(node)
            while parent is not None and self._passes(parent):
                parent = self._parents.get(parent)
            self._sure[node] = parent is None and not any(map(self._may_leave, self._above(node)))
        return self._sure[node]

    def _above(self, node: ast.AST) -> Iterator[ast.stmt]:
        """The statements above it in each of the blocks that it is in."""
        while (parent := self._parents.get(node)) is not None:
            for _, block in ast.iter_fields(parent):
                if isinstance(block, list) and node in block:
                    yield from (each for each in block[: block.index(node)] if isinstance(each, ast.stmt))
            node = parent

    def _passes(self, parent: ast.AST) -> bool:
        """Whether what is in the parent is evaluated for certain."""
        match parent:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()])) | ast.Try(handlers=[]):
                return True
            case ast.With(items=items):
                return all(_last(item.context_expr) in _NEVER_SWALLOWS for item in items)
            case ast.FunctionDef(name=name, decorator_list=[]) if self.value(name) is parent:
                is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(parent))
                return not is_generator and any(self._calls(use) and self.is_sure(use) for use in self._uses[name])
        return not isinstance(parent, (*_PERHAPS, ast.FunctionDef))

    def _calls(self, use: ast.AST) -> bool:
        parent = self._parents[use]
        return isinstance(parent, ast.Call) and (parent.func is use or self.dotted(parent.func) == "absl.app.run")

    def _may_leave(self, statement: ast.stmt) -> bool:
        """Whether what follows the statement may not be reached, since it returns, raises, exits or serves."""
        return any(isinstance(n, _LEAVES) or self._may_end(n) for n in _inside(statement, _LATER))

    def _may_end(self, node: ast.AST) -> bool:
        """Whether it is a call in which the process may end or stay: itself, or in a function of this file."""
        if not isinstance(node, ast.Call):
            return False
        name = _last(node)
        own = self.value(name) if isinstance(node.func, ast.Name) else None
        if isinstance(own, _LATER) and own not in self._ends:
            self._ends[own] = False
            self._ends[own] = any(map(self._may_end, ast.walk(own)))
        ends = name in _EXITS or (name == "join" and not node.args and not node.keywords)
        return ends or (own is not None and self._ends.get(own, False))


def _last(node: ast.AST) -> str:
    """`scope` of `strategy.scope()`."""
    func = getattr(node, "func", None)
    return str(getattr(func, "attr", getattr(func, "id", "")))


def _inside(root: ast.AST, without: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    """A node and what is in it, but for some kinds of nodes with all that is in them."""
    todo = [root]
    while todo:
        if not isinstance(node := todo.pop(), without):
            yield node
            todo += ast.iter_child_nodes(node)

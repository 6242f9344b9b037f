"""Finds where a file binds its names, and which binding gives a name its value at each use of the name."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_Position = tuple[int, int]  # a line and a column
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# These nodes contain code that may run later than the statement around the node.
_DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_NEVER_SWALLOWS = {"scope", "device", "open", "GradientTape"}  # context managers that never suppress an exception


class Binding(NamedTuple):
    """A binding of a name. All code between the binding and the position `end` runs only after the binding.

    `value` is None if the value is unknown. `is_last` is True if binding the name is the statement's last action.
    """

    start: _Position
    is_last: bool
    end: _Position
    value: ast.AST | None
    statement: ast.stmt


class Bindings:
    """The names that a file binds, imports, reads, and declares as `global` or `nonlocal`.

    `nodes` are all nodes of the file's syntax tree, outer nodes first. `imported` is True if the file is imported as a
    module, so that code under `__name__ == "__main__"` does not run.
    """

    def __init__(self, nodes: Iterable[ast.AST], imported: bool) -> None:
        self.imports: defaultdict[str, set[str]] = defaultdict(set)
        self.values: defaultdict[str, list[ast.AST | None]] = defaultdict(list)
        self.uses: defaultdict[str, list[ast.Name]] = defaultdict(list)
        self.declared = set[str]()
        self.parents: dict[ast.AST, ast.AST] = {}
        self._imported = imported
        self._scopes: dict[ast.AST, ast.AST] = {}
        self._statements: dict[ast.AST, ast.stmt] = {}  # the innermost statement that contains a node
        self._loops: dict[ast.stmt, ast.stmt | None] = {}  # the innermost loop around a statement, in the same scope
        # For each statement, a later position. All code in between runs only after the statement.
        self._ends: dict[ast.stmt, _Position] = {}
        self._bound: defaultdict[tuple[ast.AST, str], list[Binding]] = defaultdict(list)
        self._known: dict[ast.Name, ast.AST | None] = {}
        for node in nodes:
            self._place_children(node)
            self._record(node)
        for bound in self._bound.values():
            bound.sort(key=lambda binding: binding[:2])

    def names(self) -> set[str]:
        """Return the names that the file binds, or declares as global or nonlocal. A star import adds the name `*`."""
        return {name for names in (self.values, self.imports) for name, how in names.items() if how} | self.declared

    def only(self, name: str) -> ast.AST | None:
        """Return the only value, function or class that the file binds to a name; None if there is not exactly one."""
        values = self.values[name]
        return values[0] if len(values) == 1 and not self.imports[name] else None

    def value(self, use: ast.Name) -> ast.AST | None:
        """Return the value, function or class that a name has where it is used; None if this is uncertain."""
        if use not in self._known:
            self._known[use] = self._value(use)
        return self._known[use]

    def _value(self, use: ast.Name) -> ast.AST | None:
        name = use.id
        if len(self.values[name]) + len(self.imports[name]) == 1 or name in self.declared:
            return self.only(name)
        found = next((each for each in self._outward(use) if (each[0], name) in self._bound), None)
        if found is None:
            return None
        scope, statement, deferred = found
        bound = self._bound[scope, name]
        # In the body of a class, code above the binding sees the variable of the outer scope.
        if len(bound) == 1 and not isinstance(scope, ast.ClassDef):
            return bound[0].value
        here = _start(statement)
        after = bisect_left(bound, here, key=lambda binding: binding.start)
        last, following = bound[after - 1] if after else None, bound[after] if after < len(bound) else None
        if last is None or here > last.end:
            return None
        if following is not None and (deferred or self._precedes(following, statement, last)):
            return None
        return None if deferred and self._loops[last.statement] else last.value

    def scope(self, node: ast.AST, name: str) -> ast.AST | None:
        """Return the scope (function, class, comprehension or module) to which the name belongs at a node, or None."""
        return next((scope for scope, _, _ in self._outward(node) if (scope, name) in self._bound), None)

    def _outward(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.stmt, bool]]:
        """Yield `(scope, statement, deferred)` for each scope whose names the node can use, the innermost scope first.

        `statement` contains the node and belongs directly to the scope. `deferred` is True if the node may be evaluated
        later than this statement.
        """
        statement, scope, deferred = self._statements[node], self._scopes[node], False
        yield scope, statement, deferred
        while not isinstance(scope, ast.Module):
            deferred = deferred or isinstance(scope, _DEFERRED)
            statement, scope = self._statements[scope], self._scopes[scope]
            if not isinstance(scope, ast.ClassDef):  # functions in a class do not see the names of the class
                yield scope, statement, deferred

    def _precedes(self, following: Binding, statement: ast.stmt, last: Binding) -> bool:
        """Return whether the binding `following` may run between the binding `last` and the statement.

        In the file, `following` is below the statement, so the statement usually runs first.
        """
        if following.start == _start(statement) and not following.is_last:
            return True
        loop = statement if isinstance(statement, ast.While) else self._loops[statement]
        while loop is not None and _start(loop) > last.start:
            if following.start <= _end(loop):
                return True
            loop = self._loops[loop]
        return False

    def _place_children(self, node: ast.AST) -> None:
        """Record the scope and the statement of each child of a node.

        For each child that is a statement, also record the innermost loop around the statement, and the position up to
        which all following code runs only after the statement.
        """
        scope, statement = self._scopes.get(node, node), self._statements.get(node)
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            self._scopes[child] = node if _opens_scope(node, child) else scope
            if (inner := child if isinstance(child, ast.stmt) else statement) is not None:
                self._statements[child] = inner
        loop = None if statement is None or isinstance(node, _DEFINITIONS) else self._loops[statement]
        for field in ("body", "orelse", "finalbody"):
            found = getattr(node, field, None)
            block: list[ast.stmt] = found if isinstance(found, list) else []
            completes = field == "body" and self.always_completes(node)
            for each in block:
                self._loops[each] = node if isinstance(node, LOOPS) else loop
                self._ends[each] = self._ends[node] if completes and isinstance(node, ast.stmt) else _end(block[-1])

    def always_completes(self, node: ast.AST) -> bool:
        """Return whether the block in a node always completes before the code below the node runs.

        Counterexamples are a condition that skips the block, and a context manager that suppresses an exception.
        """
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()])):
                return not self._imported
            case ast.With(items=items):
                return all(last_part(item.context_expr) in _NEVER_SWALLOWS for item in items)
        return False

    def _record(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.partition(".")[0]
                    self.imports[alias.asname or top].add(alias.name if alias.asname else top)
                    self._bind(alias.asname or top, node, None)
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    self.imports[alias.asname or alias.name].add(f"{'.' * level}{module or ''}.{alias.name}")
                    self._bind(alias.asname or alias.name, node, None)
            case ast.Name(id=name, ctx=ast.Load()):
                self.uses[name].append(node)
            case ast.Name(id=name):
                self.values[name].append(value := self._assigned(node))
                self._bind(name, node, value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self.values[name].append(node)
                self._bind(name, node, node)
            case ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
                self.values[name].append(None)
                self._bind(name, node, None)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self.declared.update(names)
            case ast.alias():
                pass  # handled together with the import statement that contains the alias
            # A name that is bound by `except`, `match` or a type parameter.
            case _ if isinstance(bound := getattr(node, "name", None), str):
                self.values[bound].append(None)
                self._bind(bound, node, None)

    def _assigned(self, target: ast.Name) -> ast.AST | None:
        """Return the value that an assignment gives to a name; for `x += 1`, return the whole assignment."""
        match parent := self.parents[target]:
            case ast.Assign(value=value) | ast.AnnAssign(value=value):
                return value
            case ast.AugAssign():
                return parent
        return None

    def _bind(self, name: str, node: ast.AST, value: ast.AST | None) -> None:
        statement, scope, parent = self._statements[node], self._scopes[node], self.parents[node]
        if isinstance(node, ast.arg):  # an argument's name belongs to the scope of the function
            scope = self.parents[parent] if isinstance(parent, ast.arguments) else scope
        while isinstance(parent, ast.NamedExpr) and isinstance(scope, COMPREHENSIONS):
            scope = self._scopes[scope]
        is_last = node is statement or (isinstance(statement, _ASSIGNMENTS) and not isinstance(parent, ast.NamedExpr))
        self._bound[scope, name].append(Binding(_start(statement), is_last, self._ends[statement], value, statement))


def _opens_scope(node: ast.AST, child: ast.AST) -> bool:
    """Return whether the node opens a scope to which the child belongs, unlike the default value of an argument."""
    if isinstance(node, _DEFINITIONS):
        return isinstance(child, ast.stmt)
    return isinstance(node, COMPREHENSIONS) or (isinstance(node, ast.Lambda) and child is node.body)


def last_part(node: ast.AST) -> str:
    """Return the last part of a called function's name, such as `scope` for `strategy.scope()`."""
    func = getattr(node, "func", None)
    return str(getattr(func, "attr", getattr(func, "id", "")))


def _start(statement: ast.stmt) -> _Position:
    return statement.lineno, statement.col_offset


def _end(statement: ast.stmt) -> _Position:
    return statement.end_lineno or 0, statement.end_col_offset or 0

"""A program's file as a syntax tree: resolves names, and finds the nodes that every run evaluates.

Nothing is executed, and imports are not followed. A name is resolved only if its value is certain (see bindings.py), or
if the file always imports the same object under this name. The rules ignore all other names.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress

from clusterkit.check.bindings import COMPREHENSIONS, LOOPS, Bindings, last_part
from clusterkit.check.findings import Location

_ALIAS = re.compile(r"(?<=^tensorflow\.)(?:compat\.v2\.|_api\.v2\.)|(?<=^tensorflow\.distribute\.)experimental\.")
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
_DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_CONDITIONAL = (  # nodes with contents that a run may not evaluate
    *(ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.TryStar, ast.Match, ast.Lambda, ast.AsyncFunctionDef, ast.AsyncWith),
    *(*LOOPS, *COMPREHENSIONS),
)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)
_EXITS = {"exit", "_exit", "quit", "abort", "serve"}
DISTRIBUTES = "experimental_distribute_dataset"  # the method with which a strategy divides a dataset
LONGEST_NAME = 1000  # the maximum length of a full name, in characters; hostile files may chain thousands of attributes
MOST_TEXTS = 10_000  # the maximum number of strings in a constant value; hostile files may double a list repeatedly
MOST_LINKS = 100  # a guard against hostile files: the maximum number of names and methods between a node and its value


class Source:
    """A parsed file. Raises SyntaxError, ValueError, RecursionError or MemoryError if the file can't be parsed.

    `imported` is True if the file is imported as a module, so that code under `__name__ == "__main__"` does not run.
    """

    def __init__(self, file: str, module: str, text: bytes, imported: bool = False) -> None:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
        self.file, self.module, self.nodes = file, module, list(ast.walk(tree))
        self.bindings = Bindings(self.nodes, imported)
        self._parents, self._values, self._imports = self.bindings.parents, self.bindings.values, self.bindings.imports
        # Maps each value, and each name with an unknown value, to the places that use it.
        self._same: defaultdict[ast.AST | str, list[ast.Name]] = defaultdict(list)
        self._texts: dict[ast.AST | None, list[str] | None] = {}
        self._names: dict[ast.AST | None, str] = {}
        self._certain: dict[ast.AST, bool] = {}
        self._ends: dict[ast.AST, bool] = {}

    def location(self, node: ast.AST) -> Location:
        """Return the file and line of a node."""
        return Location(self.file, getattr(node, "lineno", 1))

    def value(self, node: ast.AST | None) -> ast.AST | None:
        """Return the value that a name certainly has here, or None. A node that is not a name is returned unchanged."""
        for _ in range(MOST_LINKS):
            if not isinstance(node, ast.Name):
                return node
            node = self.bindings.value(node)
        return None

    def chain(self, node: ast.AST | None) -> Iterator[ast.AST]:
        """Yield a value, and the values from which methods derive it: for `rows.batch(8)`, also the value of `rows`."""
        for _ in range(MOST_LINKS):
            if (node := self.value(node)) is None:
                return
            yield node
            node = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None

    def always(self, node: ast.AST | None, test: Callable[[ast.AST], ast.AST | bool]) -> bool:
        """Return whether every possible value of a node passes the test.

        The test may also return another node, which is then tested instead. If a name has no certain value, every value
        that the file binds to the name is possible.
        """
        todo, names = [node], set[str]()
        for _ in range(MOST_LINKS):
            if not todo:
                return True
            value = self.value(link := todo.pop())
            if value is None and isinstance(link, ast.Name) and self._values[link.id]:
                todo += self.values(link.id) if link.id not in names else []
                names.add(link.id)
            elif value is None or not (result := test(value)):
                return False
            elif result is not True:
                todo.append(result)
        return False

    def values(self, name: str) -> list[ast.AST | None]:
        """Return all values that the file binds to a name. None stands for an unknown value."""
        return [*self._values[name], *([None] if self._imports[name] else [])]

    def other_uses(self, use: ast.Name) -> list[ast.Name]:
        """Return the other places that use the value of a name, under this name or another name.

        The result includes the other places that use the name and at which its value is unknown.
        """
        if not self._same:
            for each in (each for uses in self.bindings.uses.values() for each in uses):
                self._same[self.value(each) or each.id].append(each)
        return [each for key in (use.id, self.value(use)) for each in self._same.get(key or "", ()) if each is not use]

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain the node, the innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def dotted(self, node: ast.AST | None) -> str:
        """Return a full name, such as `tensorflow.distribute.Server` for `tf.distribute.Server`; empty if unknown."""
        name = _ALIAS.sub("", self.imported_name(node))
        return name.removeprefix("tensorflow.") if name.startswith("tensorflow.keras.") else name

    def imported_name(self, node: ast.AST | None) -> str:
        """Return the full name of an imported object, or of an attribute of such an object; empty for other nodes.

        Unlike `dotted`, it leaves aliases of TensorFlow's own as they are, such as `tensorflow.compat.v2`.
        """
        passed: dict[ast.AST | None, None] = {}
        while node not in self._names and node not in passed:
            passed[node] = None
            if isinstance(node, ast.Attribute):
                node = node.value
            elif isinstance(node, ast.Name) and len(self._imports[node.id]) == 1 and not self._values[node.id]:
                self._names[node] = next(iter(self._imports[node.id]))
            elif isinstance(node, ast.Name):
                node = self.bindings.value(node)
            else:
                self._names[node] = ""
        name = self._names.get(node, "")
        for each in reversed(passed):
            if isinstance(each, ast.Attribute):
                name = f"{name}.{each.attr}" if name and len(name) < LONGEST_NAME else ""
            self._names[each] = name
        return name

    def constructor(self, node: ast.AST) -> str:
        """Return the full name of the function or class that is called to create a value; "" if the name is unknown."""
        call = self.value(node)
        return self.dotted(call.func) if isinstance(call, ast.Call) else ""

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Yield every call with the full name of its function."""
        return ((self.dotted(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    def model_calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of these methods on Keras models, which are the objects that the file also compiles."""
        methods = [(call.func, call) for _, call in self.calls() if isinstance(call.func, ast.Attribute)]
        compiled = {ast.dump(method.value) for method, _ in methods if method.attr == "compile"}
        yield from (call for method, call in methods if method.attr in names and ast.dump(method.value) in compiled)

    def constant_texts(self, node: ast.AST | None) -> list[str] | None:
        """Return the strings in a constant value; None if the value is not constant and so may differ between tasks."""
        if node not in self._texts:
            self._texts[node] = None  # the result for a value that contains itself, or that nests too deeply
            with suppress(RecursionError):
                self._texts[node] = self._constant_texts(node)
        return self._texts[node]

    def _constant_texts(self, node: ast.AST | None) -> list[str] | None:
        match node:
            case ast.Constant(value=value):
                return [value] if isinstance(value, str) else []
            case ast.Dict(keys=[*keys], values=parts):
                inside = [*map(self.constant_texts, keys), *map(self.constant_texts, parts)]
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                inside = [*map(self.constant_texts, parts)]
            case ast.Call(func=func, args=[value]) if self.dotted(func) == "json.dumps":
                return self.constant_texts(value)
            case ast.Name():  # `config["task"]["index"] = 1` would change the value
                named = self.value(node)
                is_fixed = isinstance(named, ast.Constant | ast.Call | None)
                others = [] if is_fixed else [self._parents[use] for use in self.other_uses(node)]
                changed = any(isinstance(each, ast.Subscript | ast.Attribute) for each in others)
                return None if changed else self.constant_texts(named)
            case _:
                return None
        many = sum(map(len, filter(None, inside))) > MOST_TEXTS
        return None if many or None in inside else [text for texts in inside for text in texts or ()]

    def mentions(self, words: re.Pattern[str]) -> bool:
        """Return whether a name or string in the file contains one of the words. Docstrings are no code."""
        nodes = (node for node in self.nodes if not _is_text(self._parents.get(node)))
        texts = (getattr(node, field, "") for node in nodes for field in ("value", "id", "attr", "name", "module"))
        return any(isinstance(text, str) and words.search(text) for text in texts)

    def may_escape(self, node: ast.AST) -> bool:
        """Return whether other code may use the value `node`, for example as an argument or a return value."""
        parent = self._parents.get(node)
        if not isinstance(parent, ast.Assign) or not all(isinstance(target, ast.Name) for target in parent.targets):
            return not isinstance(parent, ast.Expr)
        names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        uses = (self._parents[use] for name in names for use in self.bindings.uses[name])
        return any(not isinstance(use, ast.Attribute) for use in uses)

    def uncalled_function(self, name: str) -> ast.FunctionDef | None:
        """Return the function with this name if the file has only definitions and imports, and never uses the name."""
        function, module = self.bindings.only(name), self.nodes[0]
        plain = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, *_DEFERRED)
        body = module.body if isinstance(module, ast.Module) else []
        others = [node for node in body if not isinstance(node, plain) and not _is_text(node)]
        if not isinstance(function, ast.FunctionDef) or function not in body or others or self.bindings.uses[name]:
            return None
        named = any(name in (getattr(node, "attr", None), getattr(node, "value", None)) for node in self.nodes)
        return None if named else function

    def nodes_before(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield nodes that every run evaluates before `node`.

        The nodes are in simple statements above `node`, in the blocks that contain `node`.
        """
        for earlier in self._statements_before(node):
            if isinstance(earlier, _SIMPLE):
                yield from _walk(earlier, (*_DEFERRED, *_CONDITIONAL))

    def is_certain(self, node: ast.AST) -> bool:
        """Return whether every run evaluates the node: no condition or loop contains it, and no exit precedes it."""
        if node not in self._certain:
            self._certain[node] = False  # the result if the node is in a function that only the function itself calls
            parent = self._parents.get(node)
            while parent is not None and self._always_evaluates(parent):
                parent = self._parents.get(parent)
            self._certain[node] = parent is None and not any(map(self._may_exit_block, self._statements_before(node)))
        return self._certain[node]

    def _statements_before(self, node: ast.AST) -> Iterator[ast.stmt]:
        """Yield the statements above the node in each of its enclosing blocks."""
        while (parent := self._parents.get(node)) is not None:
            for _, block in ast.iter_fields(parent):
                if isinstance(block, list) and node in block:
                    yield from (each for each in block[: block.index(node)] if isinstance(each, ast.stmt))
            node = parent

    def _always_evaluates(self, parent: ast.AST) -> bool:
        """Return whether the contents of the node `parent` are evaluated each time that this node is evaluated."""
        match parent:
            case ast.If() | ast.With():
                return self.bindings.always_completes(parent)
            case ast.Try(handlers=[]):
                return True
            case ast.FunctionDef(name=name, decorator_list=[]):
                is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(parent))
                calls = [use for use in self.bindings.uses[name] if self._is_call(use) and self.value(use) is parent]
                return not is_generator and any(map(self.is_certain, calls))
        return not isinstance(parent, (*_CONDITIONAL, ast.FunctionDef))

    def _is_call(self, use: ast.AST) -> bool:
        parent = self._parents[use]
        return isinstance(parent, ast.Call) and (parent.func is use or self.dotted(parent.func) == "absl.app.run")

    def _may_exit_block(self, statement: ast.stmt) -> bool:
        """Return whether the statement may return, raise, exit or never end, so that code below is not reached."""
        return any(isinstance(n, _LEAVES) or self.may_end(n) or _is_endless(n) for n in _walk(statement, _DEFERRED))

    def may_end(self, node: ast.AST) -> bool:
        """Return whether a node is a call that may end or block the process, perhaps in a function of this file."""
        if not isinstance(node, ast.Call):
            return False
        name, own = last_part(node), self.value(node.func)
        if isinstance(own, _DEFERRED) and own not in self._ends:
            self._ends[own] = False
            self._ends[own] = any(map(self.may_end, ast.walk(own)))
        ends = name in _EXITS or (name == "join" and not node.args and not node.keywords)
        return ends or (own is not None and self._ends.get(own, False))


def argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    """Return a call's argument with this position or name; None if the call has no such argument."""
    named = (keyword.value for keyword in call.keywords if keyword.arg == name)
    return call.args[index] if index < len(call.args) else next(named, None)


def handles(node: ast.AST, errors: re.Pattern[str]) -> bool:
    """Return whether a `try` or `with` statement handles an error whose name, as `ast.dump` writes it, matches."""
    match node:
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            return any(each.type is None or errors.search(ast.dump(each.type)) for each in handlers)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return any(errors.search(ast.dump(item.context_expr)) for item in items)
    return False


def _is_endless(node: ast.AST) -> bool:
    """Return whether a node is a loop such as `while True:`."""
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def _is_text(node: ast.AST | None) -> bool:
    """Return whether the statement is only a constant, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _walk(root: ast.AST, skip: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    """Yield a node and its descendants, except for nodes of the types in `skip` and their contents."""
    todo = [root]
    while todo:
        if not isinstance(node := todo.pop(), skip):
            yield node
            todo += ast.iter_child_nodes(node)

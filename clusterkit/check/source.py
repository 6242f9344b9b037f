"""A program's file as a syntax tree: resolves names, and finds the nodes that every run evaluates.

Nothing is executed, and imports are not followed. A name is resolved only if the file binds it once, or always imports
the same object under this name. The rules ignore all other names.
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
_DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CONDITIONAL = (  # nodes whose contents may not be evaluated in a run
    *(ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.TryStar, ast.Match, ast.Lambda, ast.AsyncFunctionDef, ast.AsyncWith),
    *_LOOPS,
)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)
_EXITS = {"exit", "_exit", "quit", "abort", "serve"}
DISTRIBUTES = "experimental_distribute_dataset"  # the method with which a strategy divides a dataset
LONGEST_NAME = 1000  # characters; a hostile file may chain thousands of attributes
_NEVER_SWALLOWS = {"scope", "device", "open"}  # context managers that let every exception through


class Source:
    """A parsed file. Raises SyntaxError, ValueError, RecursionError or MemoryError if it can't be parsed.

    `imported` is True for a module, in which code under `__name__ == "__main__"` does not run.
    """

    def __init__(self, file: str, module: str, text: bytes, imported: bool = False) -> None:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
        self.file, self.module, self.nodes = file, module, list(ast.walk(tree))
        self._imported = imported
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._imports: defaultdict[str, set[str]] = defaultdict(set)
        self._values: defaultdict[str, list[ast.AST | None]] = defaultdict(list)
        self._uses: defaultdict[str, list[ast.AST]] = defaultdict(list)
        self._declared = set[str]()  # the names in `global` and `nonlocal` statements
        for node in self.nodes:
            self._bind(node)
        self._names: dict[ast.AST | None, str] = {}
        self._certain: dict[ast.AST, bool] = {}
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
            case ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
                self._values[name].append(None)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self._declared.update(names)
            case ast.alias():
                pass  # handled together with its import statement
            case _ if isinstance(bound := getattr(node, "name", None), str):  # in `except`, `match` or type parameters
                self._values[bound].append(None)

    def location(self, node: ast.AST) -> Location:
        """Return the file and line of a node."""
        return Location(self.file, getattr(node, "lineno", 1))

    def value(self, name: str) -> ast.AST | None:
        """Return the only value, function or class to which the file binds the name; None if there is no single one."""
        values = self._values[name]
        return values[0] if len(values) == 1 and not self._imports[name] else None

    def values(self, name: str) -> list[ast.AST | None]:
        """Return everything to which the file binds the name. None stands for an unknown value."""
        return [*self._values[name], *([None] if self._imports[name] else [])]

    def uses(self, name: str) -> list[ast.AST]:
        """Return the places at which the file reads the name."""
        return self._uses[name]

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain the node, the innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def bound_names(self) -> set[str]:
        """Return the names that the file binds or declares in any scope. A star import adds the name `*`."""
        return {name for names in (self._values, self._imports) for name, how in names.items() if how} | self._declared

    def dotted(self, node: ast.AST | None) -> str:
        """Return a node's full name, `tensorflow.distribute.Server` for `tf.distribute.Server`; empty if unknown."""
        name = _ALIAS.sub("", self._imported_name(node))
        return name.removeprefix("tensorflow.") if name.startswith("tensorflow.keras.") else name

    def _imported_name(self, node: ast.AST | None) -> str:
        """Return the import that a node's name begins with, with the attributes after it; empty if it has none."""
        passed: dict[ast.AST | None, None] = {}
        while node not in self._names and node not in passed:
            passed[node] = None
            if isinstance(node, ast.Attribute):
                node = node.value
            elif isinstance(node, ast.Name) and len(self._imports[node.id]) == 1 and not self._values[node.id]:
                self._names[node] = next(iter(self._imports[node.id]))
            elif isinstance(node, ast.Name):
                node = self.value(node.id)
            else:
                self._names[node] = ""
        name = self._names.get(node, "")
        for each in reversed(passed):
            if isinstance(each, ast.Attribute):
                name = f"{name}.{each.attr}" if name and len(name) < LONGEST_NAME else ""
            self._names[each] = name
        return name

    def constructor(self, node: ast.AST) -> str:
        """Return the full name of the function or class whose call creates a value; "" if unknown."""
        call = self.value(node.id) if isinstance(node, ast.Name) else node
        return self.dotted(call.func) if isinstance(call, ast.Call) else ""

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Yield every call with the full name of its function."""
        return ((self.dotted(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    def model_calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of these methods on Keras models, that is, on objects that the file also compiles."""
        methods = [(call.func, call) for _, call in self.calls() if isinstance(call.func, ast.Attribute)]
        compiled = {ast.dump(method.value) for method, _ in methods if method.attr == "compile"}
        yield from (call for method, call in methods if method.attr in names and ast.dump(method.value) in compiled)

    def constant_texts(self, node: ast.AST | None) -> list[str] | None:
        """Return the texts in a constant value; None if the value is not constant, and so may differ between tasks."""
        match node:
            case ast.Constant(value=value):
                return [value] if isinstance(value, str) else []
            case ast.Dict(keys=[*keys], values=parts):
                inside = [*map(self.constant_texts, keys), *map(self.constant_texts, parts)]
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                inside = [*map(self.constant_texts, parts)]
            case ast.Call(func=func, args=[value]) if self.dotted(func) == "json.dumps":
                return self.constant_texts(value)
            case ast.Name(id=name):  # `config["task"]["index"] = 1` would change the value
                changed = any(isinstance(self._parents[u], ast.Subscript | ast.Attribute) for u in self._uses[name])
                return None if changed else self.constant_texts(self.value(name))
            case _:
                return None
        return None if None in inside else [text for texts in inside for text in texts or ()]

    def mentions(self, words: re.Pattern[str]) -> bool:
        """Return whether a name or text in the file contains one of the words."""
        texts = (getattr(node, field, "") for node in self.nodes for field in ("value", "id", "attr", "name", "module"))
        return any(isinstance(text, str) and words.search(text) for text in texts)

    def may_escape(self, node: ast.AST) -> bool:
        """Return whether other code may use a value, for example because it is an argument or a return value."""
        parent = self._parents.get(node)
        if not isinstance(parent, ast.Assign) or not all(isinstance(target, ast.Name) for target in parent.targets):
            return not isinstance(parent, ast.Expr)
        names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        return any(not isinstance(self._parents[use], ast.Attribute) for name in names for use in self._uses[name])

    def uncalled_function(self, name: str) -> ast.FunctionDef | None:
        """Return the function with this name if the file has only definitions and imports, and never uses the name."""
        function, module = self.value(name), self.nodes[0]
        plain = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, *_DEFERRED)
        body = module.body if isinstance(module, ast.Module) else []
        others = [node for node in body if not isinstance(node, plain) and not _is_text(node)]
        if not isinstance(function, ast.FunctionDef) or function not in body or others or self._uses[name]:
            return None
        named = any(name in (getattr(node, "attr", None), getattr(node, "value", None)) for node in self.nodes)
        return None if named else function

    def nodes_before(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield nodes that every run evaluates before `node`: those of simple statements above it in its blocks."""
        for earlier in self._statements_before(node):
            if isinstance(earlier, _SIMPLE):
                yield from _walk(earlier, (*_DEFERRED, *_CONDITIONAL))

    def is_certain(self, node: ast.AST) -> bool:
        """Return whether every run evaluates the node: the node is in no condition or loop, and no exit precedes it."""
        if node not in self._certain:
            self._certain[node] = False  # the result for a node in a function that only calls itself
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
        """Return whether the contents of the parent are evaluated each time that the parent is evaluated."""
        match parent:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()])):
                return not self._imported
            case ast.Try(handlers=[]):
                return True
            case ast.With(items=items):
                return all(_last_part(item.context_expr) in _NEVER_SWALLOWS for item in items)
            case ast.FunctionDef(name=name, decorator_list=[]) if self.value(name) is parent:
                is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(parent))
                return not is_generator and any(self._is_call(use) and self.is_certain(use) for use in self._uses[name])
        return not isinstance(parent, (*_CONDITIONAL, ast.FunctionDef))

    def _is_call(self, use: ast.AST) -> bool:
        parent = self._parents[use]
        return isinstance(parent, ast.Call) and (parent.func is use or self.dotted(parent.func) == "absl.app.run")

    def _may_exit_block(self, statement: ast.stmt) -> bool:
        """Return whether the statements below may not be reached: the statement may return, raise, exit or serve."""
        return any(isinstance(n, _LEAVES) or self._may_end(n) for n in _walk(statement, _DEFERRED))

    def _may_end(self, node: ast.AST) -> bool:
        """Return whether the node is a call that may end or block the process, perhaps in a function of this file."""
        if not isinstance(node, ast.Call):
            return False
        name = _last_part(node)
        own = self.value(name) if isinstance(node.func, ast.Name) else None
        if isinstance(own, _DEFERRED) and own not in self._ends:
            self._ends[own] = False
            self._ends[own] = any(map(self._may_end, ast.walk(own)))
        ends = name in _EXITS or (name == "join" and not node.args and not node.keywords)
        return ends or (own is not None and self._ends.get(own, False))


def argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    """Return the argument of a call with this position or name; None if the call does not have it."""
    named = (keyword.value for keyword in call.keywords if keyword.arg == name)
    return call.args[index] if index < len(call.args) else next(named, None)


def _is_text(node: ast.AST) -> bool:
    """Return whether the statement is a text, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _last_part(node: ast.AST) -> str:
    """Return the last part of a called name, such as `scope` for `strategy.scope()`."""
    func = getattr(node, "func", None)
    return str(getattr(func, "attr", getattr(func, "id", "")))


def _walk(root: ast.AST, skip: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    """Yield a node and its descendants, except for nodes of the types in `skip` and their contents."""
    todo = [root]
    while todo:
        if not isinstance(node := todo.pop(), skip):
            yield node
            todo += ast.iter_child_nodes(node)

"""Finds the environment variables that a program sets before it imports TensorFlow, by reading its syntax trees."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from clusterkit.warm.environ_writes import Write, executed, is_environ, writes
from clusterkit.warm.servable import has_early_effect, is_for_tensorflow

_TENSORFLOW = re.compile(r"tensorflow(?:_\w+)?|(?:tf_)?keras(?:_\w+)?")
# Modules whose import does not read the environment variables of TensorFlow or NumPy.
_HARMLESS = {*sys.stdlib_module_names, "clusterkit"}
File = tuple[str, bytes]  # the path and the text of a source file
Find = Callable[[str, str], Iterable[File]]  # finds a module's files by module name and importing file


@dataclass(frozen=True, slots=True)
class OwnVariables:
    """The environment variables that a program sets before it imports TensorFlow; None for deleted variables."""

    values: Mapping[str, str | None]
    defaults: frozenset[str] = frozenset()  # the variables that the program sets only with `setdefault`
    unclear: str | None = None  # a clause about the first line whose effect on the variables is unknown, if any

    def effective(self, env: Mapping[str, str]) -> dict[str, str | None]:
        """Return the variables that the program sets when it starts with the environment `env`."""
        return {name: v for name, v in self.values.items() if name not in self.defaults or name not in env}


def own_variables(program: Sequence[File], find: Find) -> OwnVariables:
    """Return the variables that are set by the files of `program`, or by files that they import.

    The files are sorted in the order of execution. The last file is `__main__`.
    """
    reader = _Reader(find)
    try:
        any(reader.file(file, file is program[-1], True) for file in program)
    except RecursionError:
        reader.unclear = f"{PurePosixPath(program[-1][0]).name} is nested too deeply to see what it sets"
    return OwnVariables(reader.values, frozenset(reader.defaults), reader.unclear)


class _SourceFile(NamedTuple):
    path: str
    is_main: bool


class _Reader:
    """Reads a program's code up to the import of TensorFlow, in the order of execution.

    The methods return True if the code certainly imports TensorFlow. `sure` is True for code that the program certainly
    executes.
    """

    def __init__(self, find: Find) -> None:
        self.find = find
        self.values: dict[str, str | None] = {}
        self.defaults: set[str] = set()
        self.unclear: str | None = None
        self.aliases: set[str] = set()  # names to which the program has bound os.environ
        self.seen: set[str] = set()
        self.functions: defaultdict[str, list[tuple[Sequence[ast.stmt], _SourceFile]]] = defaultdict(list)
        self.maybe_imported = False  # True once TensorFlow may have been imported
        self.others_imported = False  # True once another installed package, such as NumPy, may have been imported

    def file(self, file: File, is_main: bool, sure: bool) -> bool:
        path, text = file
        if path in self.seen:
            return False
        self.seen.add(path)
        source = _SourceFile(path, is_main)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, MemoryError):  # the tasks' Python may accept the file
            if b"environ" in text or b"putenv" in text:
                self.mark_unclear(None, source, 1)
            return False
        return self.block(tree.body, source, sure)

    def block(self, statements: Iterable[ast.stmt], source: _SourceFile, sure: bool) -> bool:
        return any(self.statement(statement, source, sure) for statement in statements)

    def branches(self, source: _SourceFile, *blocks: Iterable[ast.stmt]) -> bool:
        """Read alternative blocks: the program executes exactly one of them, but it is unknown which."""
        imports = [self.block(block, source, False) for block in blocks]
        self.maybe_imported |= any(imports)
        return all(imports)

    def statement(self, node: ast.stmt, source: _SourceFile, sure: bool) -> bool:
        match node:
            case ast.Import(names=names):
                return any(self.import_module(alias.name, source, sure) for alias in names)
            case ast.ImportFrom():
                return self.import_from(node, source, sure)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self.definition(node, source, sure)
            case ast.If(test=test, body=body, orelse=orelse):
                if (chosen := _chosen(node, source.is_main)) is not None:
                    return self.block(chosen, source, sure)
                return self.expression(test, source, sure) or self.branches(source, body, orelse)
            case ast.Try() | ast.TryStar():
                handlers = [handler.body for handler in node.handlers]
                imports = self.block([*node.body, *node.orelse], source, sure) or self.branches(source, [], *handlers)
                return imports or self.block(node.finalbody, source, sure)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                return any(self.expression(item, source, sure) for item in items) or self.block(body, source, sure)
            case ast.For(body=body) | ast.AsyncFor(body=body) | ast.While(body=body):
                head = node.test if isinstance(node, ast.While) else node.iter
                return self.expression(head, source, sure) or self.branches(source, [], body)
            case ast.Match(subject=subject, cases=cases):
                return self.expression(subject, source, sure) or self.branches(
                    source, [], *(case.body for case in cases)
                )
        return self.expression(node, source, sure)

    def definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, source: _SourceFile, sure: bool
    ) -> bool:
        """Store the body of a function, or the bodies of a class's special methods, until code uses the name."""
        if any(self.expression(decorator, source, sure) for decorator in node.decorator_list):
            return True
        if not isinstance(node, ast.ClassDef):
            self.functions[node.name].append((node.body, source))
            return False
        imports = self.block(node.body, source, sure)
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name.startswith("__"):
                self.functions[node.name].append((part.body, source))
        return imports

    def import_module(self, name: str, source: _SourceFile, sure: bool) -> bool:
        files, top = list(self.find(name, source.path)), name.partition(".")[0]
        if not files and _TENSORFLOW.fullmatch(top):
            return True
        self.others_imported |= not files and bool(top) and top not in _HARMLESS
        return any(self.file(file, False, sure) for file in files)

    def import_from(self, node: ast.ImportFrom, source: _SourceFile, sure: bool) -> bool:
        base = "." * node.level + (node.module or "")
        if self.import_module(base, source, sure):
            return True
        for alias in node.names:
            name = base + alias.name if base.endswith(".") else f"{base}.{alias.name}"
            if any(self.file(file, False, sure) for file in self.find(name, source.path)):
                return True
            if alias.asname:
                self.functions[alias.asname] += self.functions.get(alias.name, [])
                self.aliases |= {alias.asname} if alias.name == "environ" else set()
        return False

    def expression(self, root: ast.AST, source: _SourceFile, sure: bool) -> bool:
        """Read an expression, or a statement that does not contain other statements."""
        called = set[int]()
        for node, reached in executed(root, sure):
            for write in writes(node, self.aliases):
                self.write(write, source, getattr(node, "lineno", 1), reached)
            match node:
                case ast.Assign(targets=targets, value=value) if is_environ(value, self.aliases):
                    self.aliases |= {target.id for target in targets if isinstance(target, ast.Name)}
                case ast.Call(func=function, args=arguments):
                    called.add(id(function))
                    if (name := _module_named(function, arguments)) and self.import_module(name, source, reached):
                        return True
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    if self.read_functions(name) and reached and isinstance(node, ast.Name) and id(node) in called:
                        return True
        return False

    def read_functions(self, name: str) -> bool:
        """Read the stored functions with this name, since code that uses the name may call them."""
        imports = [self.block(body, source, False) for body, source in self.functions.pop(name, ())]
        self.maybe_imported |= any(imports)
        return bool(imports) and all(imports)

    def write(self, write: Write, source: _SourceFile, line: int, sure: bool) -> None:
        name = write.name
        if name is not None and not has_early_effect(name):
            return
        too_late = self.maybe_imported or (self.others_imported and name is not None and not is_for_tensorflow(name))
        if name is None or not write.is_known or not sure or too_late:
            self.mark_unclear(name, source, line)
        elif not write.is_default:
            self.values[name] = write.value
            self.defaults.discard(name)
        elif self.values.get(name) is None:
            self.defaults |= {name} - self.values.keys()
            self.values[name] = write.value

    def mark_unclear(self, name: str | None, source: _SourceFile, line: int) -> None:
        what = f"{name}, which is" if name else "variables that are"
        where = f"{PurePosixPath(source.path).name}, line {line}"
        self.unclear = self.unclear or f"{where}, may set {what} read when TensorFlow is imported"


def _module_named(function: ast.expr, arguments: Sequence[ast.expr]) -> str | None:
    """Return the name if a call is `import_module("name")` or `__import__("name")`; otherwise None."""
    match function, arguments:
        case ast.Attribute(attr=how) | ast.Name(id=how), [ast.Constant(value=str(name)), *_]:
            return name if how in ("import_module", "__import__") else None
    return None


def _chosen(node: ast.If, is_main: bool) -> Sequence[ast.stmt] | None:
    """Return the executed branch of an `if __name__ == …` or `if TYPE_CHECKING`; None for other conditions."""
    match node.test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return node.body if is_main else node.orelse
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return node.orelse
    return None

"""The functions, classes and modules that a program defines, as a walk comes across them."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable

from clusterkit.rules.expressions import Expressions, Frame, Function, Origin
from clusterkit.rules.origins import canonical
from clusterkit.rules.source import Module
from clusterkit.rules.vocabulary import Words


class Definitions(Expressions):
    """Knows what a program has defined and imported so far."""

    def __init__(self, modules: Iterable[Module], words: Words, keras: int | None) -> None:
        super().__init__(words, keras)
        self.modules = {module.name: module for module in modules}
        self.main = next(iter(self.modules), "")
        self._frames: dict[str, Frame] = {}

    @abstractmethod
    def block(self, body: Iterable[ast.stmt], frame: Frame) -> bool:
        """Follow statements; whether what comes behind them is not reached."""

    def import_own(self, name: str) -> Frame:
        """The names of a module of the program's own, which is executed the first time."""
        if (frame := self._frames.get(name)) is None:
            frame = self._frames[name] = Frame(self.modules[name])
            self.block(self.modules[name].tree.body, frame)
            self.doubts -= frame.doubts
            self.guards -= frame.guards
        return frame

    def known_in(self, module: str, name: str) -> Origin:
        if f"{module}.{name}" in self.modules:
            return f"{module}.{name}"
        return self.import_own(module).names.get(name)

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame, owner: str | None = None) -> None:
        """Keep a function, or a method of `owner`."""
        for decorator in node.decorator_list:
            self.evaluate(decorator, frame)
        if owner is not None:
            self.functions[f"{owner}.{node.name}"] = Function(node, frame, owner)
            return
        within = "" if frame.parent is None else f"<{node.lineno}>."
        name = f"{frame.module.name}:{within}{node.name}"
        self.functions[name] = Function(node, frame)
        frame.names[node.name] = name

    def define_class(self, node: ast.ClassDef, frame: Frame) -> None:
        """Keep a class, its methods and its first base that is known."""
        bases = [origin for base in node.bases if (origin := self.evaluate(base, frame)) is not None]
        name = frame.names[node.name] = f"{frame.module.name}:{node.name}"
        self.bases[name] = bases[0] if bases else None
        inner = Frame(frame.module, frame)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.define(statement, frame, name)
            else:
                self.block([statement], inner)

    def import_statement(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        """Remember what the names mean; a module of the program's own is executed."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                origin = self._module(alias.name)
                frame.names[alias.asname or top] = canonical(origin) if alias.asname else top
            return
        base = _absolute(node, frame.module)
        self._module(base)
        for alias in node.names:
            frame.names[alias.asname or alias.name] = self._imported(base, alias.name, node, frame)

    def _module(self, name: str) -> str:
        if name in self.modules:
            self.import_own(name)
        return name

    def _imported(self, base: str, name: str, node: ast.stmt, frame: Frame) -> Origin:
        if base in self.modules and name in (known := self.import_own(base).names):
            return known[name]
        if f"{base}.{name}" in self.modules:
            return self._module(f"{base}.{name}")
        origin = canonical(f"{base}.{name}")
        if origin.startswith(("tensorflow.", "keras.")):
            self.mark(f"={origin}", node, frame)
        return origin


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    parents = module.name.split(".")[: -node.level] if not module.is_package else module.name.split(".")
    parents = parents[: len(parents) - (node.level - 1)] if module.is_package else parents
    return ".".join([*parents, *([node.module] if node.module else [])])

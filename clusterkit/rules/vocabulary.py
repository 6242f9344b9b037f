"""All that is said in a program's files, whether it is reached or not, and which of it has to do with the cluster."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterkit.rules.origins import HARMLESS, says_cluster, says_role
from clusterkit.rules.source import Module

_ELSEWHERE = {"import_module", "__import__", "exec", "runpy", "subprocess", "multiprocessing", "execv", "execvp"}
_SAME_EVERYWHERE = {"json", "dumps", "str", "dict", "list"}
_LONGEST = 80  # of a text that can be a name of something


@dataclass(slots=True)
class Words:
    """What a program says."""

    names: set[str] = field(default_factory=set)  # of variables, attributes, functions and keywords
    texts: set[str] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)
    values: dict[str, list[ast.expr | None]] = field(default_factory=lambda: defaultdict(list))  # None: anything
    about_cluster: set[str] = field(default_factory=set)  # names whose value comes from what TF_CONFIG says

    @classmethod
    def of(cls, modules: Iterable[Module]) -> Words:
        """Collect them."""
        words = cls()
        for module in modules:
            for node in _nodes(module.tree):
                words._take(node)
        words._spread()
        return words

    @property
    def asks_role(self) -> bool:
        """Whether the program looks at which task it is, or at something that can tell."""
        return self.asks_task or "TF_CONFIG" in self.texts

    @property
    def asks_task(self) -> bool:
        """Whether the program looks at its own type or index; how many workers there are is another question."""
        named = any(says_role(name, is_text=False) for name in self.names)
        return named or any(says_role(text, is_text=True) for text in self.texts)

    def is_opaque(self, own: Iterable[str]) -> bool:
        """Whether code that is not looked into may do what the program does not: its own modules are `own`."""
        known = {*sys.stdlib_module_names, *HARMLESS, *own}
        return bool((self.imported - known) | ((self.names | self.imported) & _ELSEWHERE))

    def asks_cluster(self, node: ast.AST) -> bool:
        """Whether an expression has to do with the cluster, be it through a variable."""
        names, texts = _said(node)
        return not names.isdisjoint(self.about_cluster) or _is_about_cluster(names, texts)

    def is_constant(self, node: ast.AST, depth: int = 5) -> bool:
        """Whether an expression is the same in every task: texts and numbers, also through variables."""
        if depth == 0:
            return False
        for part in _nodes(node):
            if isinstance(part, ast.Call) and not _said(part.func)[0] <= _SAME_EVERYWHERE:
                return False
            if isinstance(part, ast.Name) and part.id not in _SAME_EVERYWHERE:
                values = self.values.get(part.id)
                if not values or not all(value is not None and self.is_constant(value, depth - 1) for value in values):
                    return False
        return True

    def _take(self, node: ast.AST) -> None:
        _say(node, self.names, self.texts)
        match node:
            case ast.Import(names=aliases):
                self.imported.update(alias.name.partition(".")[0] for alias in aliases)
            case ast.ImportFrom(module=str(name), level=0):
                self.imported.add(name.partition(".")[0])
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, value)
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._bind(target, value)
            case ast.For(target=target) | ast.comprehension(target=target):
                self._bind(target, None)
            case ast.FunctionDef(name=name, args=arguments):
                for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                    self.values[argument.arg].append(None)
                returned = (inner.value for inner in _nodes(node) if isinstance(inner, ast.Return) and inner.value)
                self.values[name].extend(returned)

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        for part in _nodes(target):
            if isinstance(part, ast.Name):
                self.values[part.id].append(value)
            elif isinstance(part, ast.Attribute):
                self.values[part.attr].append(value)

    def _spread(self) -> None:
        said = {name: [_said(value) for value in values if value is not None] for name, values in self.values.items()}
        self.about_cluster = {
            name for name, parts in said.items() if any(_is_about_cluster(names, texts) for names, texts in parts)
        }
        grown = True
        while grown:
            new = {name for name, parts in said.items() if any(names & self.about_cluster for names, _ in parts)}
            grown = not new <= self.about_cluster
            self.about_cluster |= new


def _is_about_cluster(names: Iterable[str], texts: Iterable[str]) -> bool:
    named = any(says_cluster(name, is_text=False) for name in names)
    return named or any(says_cluster(text, is_text=True) for text in texts)


def _said(node: ast.AST) -> tuple[set[str], set[str]]:
    names, texts = set[str](), set[str]()
    for part in _nodes(node):
        _say(part, names, texts)
    return names, texts


def _say(node: ast.AST, names: set[str], texts: set[str]) -> None:
    """Add a node's own words. Why not `match`: this is what takes the time of a check."""
    kind = type(node)
    if kind is ast.Name:
        names.add(node.id)  # type: ignore[attr-defined]
    elif kind is ast.Attribute:
        names.add(node.attr)  # type: ignore[attr-defined]
    elif kind is ast.Constant:
        value = node.value  # type: ignore[attr-defined]
        if type(value) is str and len(value) < _LONGEST:
            texts.add(value)
    elif kind is ast.arg or kind is ast.keyword:
        names.add(node.arg or "")  # type: ignore[attr-defined]
    elif kind is ast.FunctionDef or kind is ast.ClassDef or kind is ast.AsyncFunctionDef:
        names.add(node.name)  # type: ignore[attr-defined]
    elif kind is ast.alias:
        names.update(node.name.split("."))  # type: ignore[attr-defined]


def _nodes(node: ast.AST) -> list[ast.AST]:
    """A node and all below it, as `ast.walk` finds them, without those that say nothing."""
    found = [node]
    for each in found:
        for name in each._fields:
            value = getattr(each, name, None)
            if type(value) is list:
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                found.append(value)
    return found

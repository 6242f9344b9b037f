"""What an expression of a program is, by the dotted name of where it comes from, and the calls that it makes."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.rules.origins import canonical, initialises
from clusterkit.rules.source import Module
from clusterkit.rules.vocabulary import Words
from clusterkit.words.findings import Place

Origin = str | None  # "keras.Model" for that class and what it makes; None: not known


@dataclass(slots=True)
class Frame:
    """The names that are known at a place, those of the enclosing functions and the module behind them."""

    module: Module
    parent: Frame | None = None
    names: dict[str, Origin] = field(default_factory=dict)
    returned: Origin = None
    doubts: int = 0  # of what is left of it, since it may have returned
    guards: int = 0

    def find(self, name: str) -> Origin:
        """What the name stands for."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.parent
        return name if name in ("open", "exec", "exit", "quit") else None


class Function(NamedTuple):
    """A function of the program's own, with the names that it sees."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    frame: Frame
    owner: Origin = None  # its class


class Mark(NamedTuple):
    """A call that was come across, or the use of a name."""

    name: str
    node: ast.AST
    place: Place
    certain: bool  # reached in every task, whenever the program runs
    guarded: bool  # only where a question about the cluster or the task has been answered
    initialised: Place | None  # what has initialised TensorFlow before, on each way to here
    perhaps: Place | None
    args: tuple[Origin, ...] = ()


class Expressions(ABC):
    """Follows expressions in the order in which they are evaluated, and keeps a mark of each call."""

    def __init__(self, words: Words, keras: int | None) -> None:
        self.asks = words.asks_cluster
        self.marks: list[Mark] = []
        self.modules: dict[str, Module] = {}
        self.functions: dict[str, Function] = {}
        self.bases: dict[str, Origin] = {}  # of the program's own classes
        self._attributes: dict[str, Origin] = {}
        self._keras = keras
        self.doubts = 0  # how many conditions stand between the beginning and here
        self.guards = 0  # and how many of them are about the cluster
        self.initialised: Place | None = None
        self.perhaps: Place | None = None

    @abstractmethod
    def known_in(self, module: str, name: str) -> Origin:
        """What a name of a module of the program's own stands for."""

    @abstractmethod
    def enter(self, name: str, args: tuple[Origin, ...], words: dict[str, Origin]) -> Origin:
        """Follow a call of the program's own function."""

    def mark(self, name: str, node: ast.AST, frame: Frame, args: tuple[Origin, ...] = ()) -> None:
        """Keep a mark of where we are."""
        place, certain, guarded = frame.module.place(node), self.doubts == 0, self.guards > 0
        self.marks.append(Mark(name, node, place, certain, guarded, self.initialised, self.perhaps, args))

    @contextmanager
    def doubting(self, asks: bool = False) -> Iterator[None]:
        """What comes may be reached or not; `asks`: the cluster decides it."""
        before = self.initialised
        self.doubts, self.guards = self.doubts + 1, self.guards + asks
        yield
        self.doubts, self.guards = self.doubts - 1, self.guards - asks
        self.initialised = before

    def evaluate(self, node: ast.expr | None, frame: Frame) -> Origin:
        """Where the value comes from."""
        match node:
            case None | ast.Constant() | ast.Lambda():
                return None
            case ast.Name(id=name):
                return frame.find(name)
            case ast.Attribute():
                return self._attribute(node, frame)
            case ast.Call():
                return self._call(node, frame)
            case ast.Await(value=value) | ast.NamedExpr(value=value) | ast.Starred(value=value):
                origin = self.evaluate(value, frame)
                if isinstance(node, ast.NamedExpr):
                    self.assign(node.target, origin, frame)
                return origin
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.evaluate(test, frame)
                return self._either(body, orelse, frame=frame, asks=self.asks(test))
            case ast.BoolOp(values=[first, *others]):
                origin = self.evaluate(first, frame)
                return origin or self._either(*others, frame=frame, asks=self.asks(first))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, frame)
                return None
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, frame)
        return None

    def assign(self, target: ast.expr, origin: Origin, frame: Frame) -> None:
        """Remember what a name stands for from here on."""
        match target:
            case ast.Name(id=name):
                frame.names[name] = origin
            case ast.Attribute(value=value, attr=attr):
                if (owner := self.evaluate(value, frame)) is not None:
                    self._attributes[f"{owner}.{attr}"] = origin
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.assign(part, None, frame)

    def _either(self, *nodes: ast.expr, frame: Frame, asks: bool) -> Origin:
        with self.doubting(asks):
            found = [self.evaluate(node, frame) for node in nodes]
        return next((origin for origin in found if origin is not None), None)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> None:
        self.evaluate(node.generators[0].iter, frame)
        inner = Frame(frame.module, frame)
        for generator in node.generators:
            self.assign(generator.target, None, inner)
        with self.doubting():
            for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                self.evaluate(part, inner)

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Origin:
        owner = self.evaluate(node.value, frame)
        if owner is None:
            return None
        if owner in self.modules:
            return self.known_in(owner, node.attr)
        name = self._member(owner, node.attr)
        if name.startswith(("tensorflow.", "keras.")):
            self.mark(f"={name}", node, frame)  # `=` tells the use of a name from a call
        return name

    def _member(self, owner: str, attr: str) -> str:
        seen = set[str]()
        at: Origin = owner
        while at is not None and at not in seen:
            seen.add(at)
            name = f"{at}.{attr}"
            if name in self._attributes:
                return self._attributes[name] or name
            if name in self.functions or at not in self.bases:
                return canonical(name)
            at = self.bases[at]
        return f"{owner}.{attr}"

    def _call(self, node: ast.Call, frame: Frame) -> Origin:
        name = self.evaluate(node.func, frame)
        args = tuple(self.evaluate(arg, frame) for arg in node.args)
        words = {word.arg: self.evaluate(word.value, frame) for word in node.keywords}
        if name is None:
            if isinstance(node.func, ast.Attribute):
                self.mark(f"?.{node.func.attr}", node, frame, args)
            return None
        if name in self.functions or f"{name}.__init__" in self.functions or name in self.bases:
            return self.enter(name, args, {word: origin for word, origin in words.items() if word is not None})
        name = self.meant(name, node)
        self.mark(name, node, frame, args)
        if initialises(name, self._keras):
            place = frame.module.place(node)
            self.initialised, self.perhaps = self.initialised or place, self.perhaps or place
        self.called(name, node, args, frame)
        return name

    @abstractmethod
    def meant(self, name: str, node: ast.Call) -> str:
        """What the call makes, where its arguments or the job say that it is something else than its name says."""

    @abstractmethod
    def called(self, name: str, node: ast.Call, args: tuple[Origin, ...], frame: Frame) -> None:
        """Follow what a function of a library calls back."""

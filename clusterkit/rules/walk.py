"""A walk through a program in the order in which its statements are executed, as far as the text decides it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from clusterkit.rules.definitions import Definitions
from clusterkit.rules.expressions import Frame, Function, Mark, Origin
from clusterkit.rules.origins import NAMED, OURS, REMOVES_TF_CONFIG, WRITES_TF_CONFIG
from clusterkit.rules.source import Module
from clusterkit.rules.vocabulary import Words
from clusterkit.words.findings import Place

_ENDS = {"sys.exit", "os._exit", "exit", "quit"}
_CALLS_BACK = {"absl.app.run", "asyncio.run", "tensorflow.compat.v1.app.run"}
_PLAIN_DECORATOR = re.compile(r"(?:click|functools|contextlib|typing|hydra|absl)\..*")
State = tuple[Place | None, Place | None]  # what has initialised TensorFlow: certainly, perhaps
TF_CONFIG = "TF_CONFIG"
NONE: Mapping[str, bool] = MappingProxyType({})


class Walk(Definitions):
    """Follows statements, calls of the program's own functions, and its modules as they are imported.

    `answers` are questions of clusterkit's training library whose answer is known for the job, `usual` is the strategy
    that it makes for the job.
    """

    def __init__(
        self,
        modules: Iterable[Module],
        words: Words,
        keras: int | None,
        answers: Mapping[str, bool] = NONE,
        usual: str | None = None,
    ) -> None:
        super().__init__(modules, words, keras)
        self._answers = answers
        self._usual = usual
        self._entered: dict[tuple[str, bool], Origin] = {}

    def run(self) -> list[Mark]:
        """From the first line of the first module on; then what was never reached, as it may be after all."""
        if self.main:
            self.import_own(self.main)
        self.doubts, self.initialised, self.perhaps = 1, None, None
        while waiting := [name for name in self.functions if not self._was_entered(name)]:
            for name in waiting:
                self._follow(name, {})
                self.initialised = self.perhaps = None
        return self.marks

    def enter(self, name: str, args: tuple[Origin, ...], words: dict[str, Origin]) -> Origin:
        made = name in self.bases
        function = self.functions.get(f"{name}.__init__" if made else name)
        if function is None or self._is_traced(function):
            return name if made else None  # what makes a graph is looked at in the end
        names = [*function.node.args.posonlyargs, *function.node.args.args]
        bound = dict(zip((arg.arg for arg in names[function.owner is not None :]), args, strict=False))
        bound |= words
        returned = self._follow(f"{name}.__init__" if made else name, bound)
        return name if made else returned

    def called(self, name: str, node: ast.Call, args: tuple[Origin, ...], frame: Frame) -> None:
        if name in _CALLS_BACK and args and args[0] in self.functions:
            self._follow(str(args[0]), {})
        if name in ("os.environ.update", "os.putenv", "os.unsetenv", "os.environ.pop"):
            texts = {part.value for part in [*ast.walk(node)] if isinstance(part, ast.Constant)}
            if TF_CONFIG in texts or any(keyword.arg == TF_CONFIG for keyword in node.keywords):
                removes = name in ("os.unsetenv", "os.environ.pop")
                self.mark(REMOVES_TF_CONFIG if removes else WRITES_TF_CONFIG, node, frame)

    def meant(self, name: str, node: ast.Call) -> str:
        if name != OURS:
            return name
        asked = next((word.value for word in node.keywords if word.arg == "name"), node.args[0] if node.args else None)
        if asked is None or (isinstance(asked, ast.Constant) and NAMED.get(str(asked.value), OURS) == self._usual):
            return self._usual or name
        return name

    def _was_entered(self, name: str) -> bool:
        return (name, True) in self._entered or (name, False) in self._entered

    def _follow(self, name: str, bound: Mapping[str, Origin]) -> Origin:
        function = self.functions[name]
        key = (name, self.doubts == 0)
        if key in self._entered or (name, True) in self._entered:
            return self._entered.get(key) or self._entered.get((name, True))
        self._entered[key] = None
        inner = Frame(function.frame.module, function.frame, dict.fromkeys(_parameters(function.node)))
        if function.owner is not None and function.node.args.args:
            inner.names[function.node.args.args[0].arg] = function.owner
        inner.names |= bound
        doubtful = any(self._is_unclear(decorator, function.frame) for decorator in function.node.decorator_list)
        before = self.initialised
        self.doubts += doubtful
        self.block(function.node.body, inner)
        self.doubts -= inner.doubts + doubtful
        self.guards -= inner.guards
        if inner.doubts or doubtful:  # it may have returned before it came to what initialises
            self.initialised = before
        self._entered[key] = inner.returned
        return inner.returned

    def _is_unclear(self, decorator: ast.expr, frame: Frame) -> bool:
        name = self._decorator(decorator, frame)
        builtin = isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod", "property")
        return not builtin and not _PLAIN_DECORATOR.fullmatch(name or "")

    def block(self, body: Iterable[ast.stmt], frame: Frame) -> bool:
        """Follow statements; whether what comes behind them is not reached."""
        return any(self._statement(statement, frame) for statement in body)

    def _statement(self, node: ast.stmt, frame: Frame) -> bool:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.define(node, frame)
            case ast.ClassDef():
                self.define_class(node, frame)
            case ast.Import() | ast.ImportFrom():
                self.import_statement(node, frame)
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, self.evaluate(value, frame), node, frame)
            case ast.AnnAssign(target=target, value=value):
                self._assign([target], self.evaluate(value, frame), node, frame)
            case ast.Delete(targets=targets):
                self._removes(targets, frame)
            case ast.Return(value=value):
                frame.returned = self.evaluate(value, frame) or frame.returned
                return True
            case ast.Raise() | ast.Continue() | ast.Break():
                return True
            case ast.If():
                return self._if(node, frame)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    origin = self.evaluate(item.context_expr, frame)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, origin, frame)
                return self.block(body, frame)
            case ast.For() | ast.AsyncFor() | ast.While() | ast.Try() | ast.TryStar() | ast.Match():
                return self._perhaps(node, frame)
            case ast.Expr(value=value):
                return self.evaluate(value, frame) in _ENDS
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.evaluate(child, frame)
        return False

    def _if(self, node: ast.If, frame: Frame) -> bool:
        self.evaluate(node.test, frame)
        known = self._answer(node.test, frame)
        if known is not None:
            return self.block(node.body if known else node.orelse, frame)
        asks, branches = self.asks(node.test), (node.body, node.orelse)
        before: State = (self.initialised, self.perhaps)
        self.doubts, self.guards = self.doubts + 1, self.guards + asks
        ended, states = [], list[State]()
        for branch in branches:
            self.initialised, self.perhaps = before
            ended.append(self.block(branch, frame))
            states.append((self.initialised, self.perhaps))
        self.doubts, self.guards = self.doubts - 1, self.guards - asks
        going_on = [state for state, end in zip(states, ended, strict=True) if not end]
        firsts = [state[0] for state in going_on]
        self.initialised = before[0] or (firsts[0] if firsts and all(firsts) else None)
        self.perhaps = before[1] if asks else next((state[1] for state in going_on if state[1]), before[1])
        # A branch that raises is no other way through the program: it fails there.
        if any(end and not isinstance(branch[-1], ast.Raise) for branch, end in zip(branches, ended, strict=True)):
            frame.doubts, self.doubts = frame.doubts + 1, self.doubts + 1
            frame.guards, self.guards = frame.guards + asks, self.guards + asks
        return not going_on

    def _answer(self, test: ast.expr, frame: Frame) -> bool | None:
        """What the condition is, where that is known before the start."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = self._answer(operand, frame)
                return None if known is None else not known
            case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant("__main__")]):
                return frame.module.name == self.main
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                return False
            case ast.Constant(value=value):
                return bool(value)
            case ast.Call(func=(ast.Name() | ast.Attribute()) as func):
                return self._answers.get(self.evaluate(func, frame) or "")
        return None

    def _perhaps(self, node: ast.stmt, frame: Frame) -> bool:
        """Follow what may be executed, and may not."""
        match node:
            case ast.While(test=ast.Constant(value=value), body=body) if value:
                self.block(body, frame)
                return not any(isinstance(part, ast.Break) for part in ast.walk(node))
            case ast.Try(body=body, handlers=[], finalbody=final):
                return any([self.block(body, frame), self.block(final, frame)])
            case ast.For(target=target, iter=first) | ast.AsyncFor(target=target, iter=first):
                self.evaluate(first, frame)
                self.assign(target, None, frame)
            case ast.While(test=first) | ast.Match(subject=first):
                self.evaluate(first, frame)
        for _, value in ast.iter_fields(node):
            for part in value if isinstance(value, list) else ():
                with self.doubting():
                    if isinstance(part, ast.stmt):
                        self.block([part], frame)
                    elif isinstance(part, ast.ExceptHandler | ast.match_case):
                        self.block(part.body, frame)
        return False

    def _assign(self, targets: Iterable[ast.expr], origin: Origin, node: ast.stmt, frame: Frame) -> None:
        for target in targets:
            self.assign(target, origin, frame)
            if self._is_tf_config(target, frame):
                self.mark(WRITES_TF_CONFIG, node, frame)

    def _removes(self, targets: Iterable[ast.expr], frame: Frame) -> None:
        for target in targets:
            if self._is_tf_config(target, frame):
                self.mark(REMOVES_TF_CONFIG, target, frame)

    def _is_tf_config(self, target: ast.expr, frame: Frame) -> bool:
        match target:
            case ast.Subscript(value=value, slice=ast.Constant(value="TF_CONFIG")):
                return self.evaluate(value, frame) == "os.environ"
        return False

    def _is_traced(self, function: Function) -> bool:
        return any(
            self._decorator(each, function.frame) == "tensorflow.function" for each in function.node.decorator_list
        )

    def _decorator(self, node: ast.expr, frame: Frame) -> Origin:
        return self.evaluate(node.func if isinstance(node, ast.Call) else node, frame)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[str]:
    args = node.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [arg.arg for arg in [*named, *(rest for rest in (args.vararg, args.kwarg) if rest)]]

"""Rules about shuffles with a different order in each worker: the workers' shares then omit rows and repeat others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from clusterkit.check.case import MULTI_WORKER, OUR_STRATEGY, Case, Hit
from clusterkit.check.source import DISTRIBUTES, Source, argument
from clusterkit.words.model import Shape

_SEEDS = {"tensorflow.random.set_seed", "keras.utils.set_random_seed"}
_SHUFFLES_LISTS = re.compile(r"^(?:random|numpy\.random|tensorflow\.random)\.|rng")
_SHUFFLES = re.compile(r"(?:numpy\.random|random)\.(?:shuffle|permutation)")
_SPLITS = "sklearn.model_selection.train_test_split"
_MAKERS = {"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"}
_BATCHES = {"keras.utils.PyDataset", "keras.utils.Sequence"}
MOST_ROUNDS = 20  # the maximum number of times that all assignments are processed, in line order
_SHARDS = re.compile(r"(?i)shard|input_pipeline|InputContext|_from_function")  # words in code that divides rows


def unseeded_shuffle(case: Case) -> Iterator[Hit]:
    """Find datasets that are shuffled without a seed, if --no-patches disables the seed that all tasks share."""
    is_gang = case.job.shape is Shape.MULTI_WORKER and not case.job.patches and case.names({MULTI_WORKER, OUR_STRATEGY})
    for source in case.sources if is_gang and not case.names(_SEEDS) else ():
        trained = {each for rows in _training_rows(case, source) for each in source.chain(rows)}
        for name, call in source.calls():
            in_function = any(isinstance(each, ast.FunctionDef) for each in source.enclosing(call))
            if call not in trained and not in_function:
                continue  # as far as can be told, no strategy sees this dataset
            is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "shuffle" and len(call.args) == 1
            seeded = any(keyword.arg in ("seed", None) for keyword in call.keywords)
            if is_method and not seeded and not _SHUFFLES_LISTS.search(name) and case.applies(source, call):
                what = (
                    f"Each of the tasks ({case.tasks}) shuffles the rows in its own order before the tasks divide the "
                    "rows, so some rows are lost, and others are read twice."
                )
                advice = "Pass a seed to shuffle(), or run without --no-patches."
                yield Hit(source.location(call), what, advice)


def unseeded_rows(case: Case) -> Iterator[Hit]:
    """Find rows that are divided among workers, but that a package other than TensorFlow shuffles without a seed."""
    is_gang = case.job.shape is Shape.MULTI_WORKER and case.is_distributed and case.names({MULTI_WORKER, OUR_STRATEGY})
    if not is_gang or any(source.mentions(_SHARDS) for source in case.sources):
        return
    seeds = any(_sets_seed(name, call) for source in case.sources for name, call in source.calls())
    for source in case.sources:
        shuffles = {
            call: advice
            for name, call in source.calls()
            if (advice := _unseeded(source, name, call, seeds))
            and (case.applies(source, call) or any(_makers_around(source, call)))
        }
        rows = _ShuffledRows(source, shuffles) if shuffles else None
        reached = [rows.origin(each) for each in _training_rows(case, source)] if rows else []
        for call in dict.fromkeys(each for each in reached if each is not None):
            what = (
                f"Each of the tasks ({case.tasks}) shuffles the rows in its own order before the tasks divide the "
                "rows, so some rows are lost, and others are read twice."
            )
            yield Hit(source.location(call), what, shuffles[call])


def _sets_seed(name: str, call: ast.Call) -> bool:
    """Return whether the call seems to seed NumPy or Python's `random`, perhaps through another package."""
    last = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return "seed" in last.lower() and name != "tensorflow.random.set_seed"


def _unseeded(source: Source, name: str, call: ast.Call, seeds: bool) -> str:
    """Return advice on a seed for a call that shuffles rows; "" if the call does not shuffle rows or has a seed.

    `seeds` is True if the program seeds the global generators of NumPy and Python. Other generators are seeded when the
    program creates them.
    """
    by_all = "Call keras.utils.set_random_seed(1), with the same seed in all workers, before the first shuffle."
    if _SHUFFLES.fullmatch(name) or (name in ("random.sample", "numpy.random.choice") and _takes_all(call)):
        return "" if seeds else by_all
    if name == _SPLITS:
        seeded = seeds or any(keyword.arg in ("random_state", "shuffle", None) for keyword in call.keywords)
        return "" if seeded else "Give train_test_split() a random_state that is the same in all workers."
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("shuffle", "permutation", "permuted"):
        maker = _maker_of(source, call.func.value)
        if maker is not None and source.dotted(maker.func) in _MAKERS and not maker.args and not maker.keywords:
            return f"Give {source.dotted(maker.func).rpartition('.')[2]}() a seed that is the same in all workers."
    return ""


def _takes_all(call: ast.Call) -> bool:
    """Return whether the call draws all numbers in a range, or all items in a list, in a random order."""
    if len(call.args) < 2:
        return False
    first, count = map(ast.unparse, call.args[:2])
    return first in (count, f"range({count})") or count == f"len({first})"


def _maker_of(source: Source, owner: ast.AST) -> ast.Call | None:
    """Return the call that creates a random generator, or None. `owner` is the call or names the generator."""
    value = source.value(owner)
    if isinstance(owner, ast.Attribute):
        values = [node.value for node in source.nodes if isinstance(node, ast.Assign) and _binds(node, owner)]
        value = values[0] if len(values) == 1 else None
    return value if isinstance(value, ast.Call) else None


def _binds(assignment: ast.Assign, owner: ast.Attribute) -> bool:
    return any(isinstance(target, ast.Attribute) and target.attr == owner.attr for target in assignment.targets)


class _ShuffledRows:
    """The unseeded shuffles in a file, and the variables to which the shuffled rows are assigned.

    A variable is a name together with the scope that binds the name. Assignments are processed repeatedly, in line
    order, until nothing changes.
    """

    def __init__(self, source: Source, shuffles: Iterable[ast.Call]) -> None:
        self._source, self._shuffles = source, {*shuffles}
        self._origins: dict[tuple[ast.AST | None, str], ast.Call] = {}
        for call in self._shuffles:
            for name in _shuffled_by(source, call):
                self._origins.setdefault(self._variable(call, name), call)
        bindings = [node for node in source.nodes if isinstance(node, ast.Assign | ast.Return)]
        for _ in range(MOST_ROUNDS):
            before = len(self._origins)
            for node in bindings:
                self._bind(node)
            if len(self._origins) == before:
                break

    def _variable(self, node: ast.AST, name: str) -> tuple[ast.AST | None, str]:
        return self._source.bindings.scope(node, name), name

    def _bind(self, node: ast.Assign | ast.Return) -> None:
        """If a shuffle determines the order of a value, record the shuffle.

        The record is for the variables to which the value is assigned, or for the function that returns the value.
        """
        if (call := self.origin(node.value)) is None:
            return
        function = next((each for each in self._source.enclosing(node) if isinstance(each, ast.FunctionDef)), None)
        if isinstance(node, ast.Return) and function is not None:
            self._origins.setdefault(self._variable(function, function.name), call)
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    self._origins.setdefault(self._variable(name, name.id), call)

    def origin(self, value: ast.AST | None) -> ast.Call | None:
        """Return the shuffle that determines the order of a value's rows, or None.

        The result is also None for a size, shape or type, which does not depend on the order of the rows.
        """
        match value:
            case None | ast.Attribute(attr="shape" | "size" | "ndim" | "dtype") | ast.Call(func=ast.Name(id="len")):
                return None
            case ast.Name(id=name):
                return self._origins.get(self._variable(value, name))
            case ast.Call() if value in self._shuffles:
                return value
        return next((call for part in ast.iter_child_nodes(value) if (call := self.origin(part)) is not None), None)


def _shuffled_by(source: Source, call: ast.Call) -> Iterator[str]:
    """Yield the names of the objects that a call shuffles.

    These are the call's argument, and the generators and batch classes that contain the call.
    """
    if getattr(call.func, "attr", getattr(call.func, "id", "")) == "shuffle":
        yield from (arg.id for arg in call.args[:1] if isinstance(arg, ast.Name))
    yield from _makers_around(source, call)


def _makers_around(source: Source, call: ast.Call) -> Iterator[str]:
    """Yield the names of the generators and batch classes that contain a call, and so repeat the call every epoch."""
    for node in source.enclosing(call):
        yields = (isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))
        if isinstance(node, ast.FunctionDef) and any(yields):
            yield node.name
        if isinstance(node, ast.ClassDef) and not _BATCHES.isdisjoint(map(source.dotted, node.bases)):
            yield node.name


def _training_rows(case: Case, source: Source) -> Iterator[ast.expr]:
    """Yield the rows that are passed to the calls in which a strategy divides rows among the workers."""
    fits = [call for origin, call in case.fits() if origin is source]
    methods = (call for _, call in source.calls() if getattr(call.func, "attr", "") == DISTRIBUTES)
    for call in (*fits, *(method for method in methods if case.applies(source, method))):
        if (rows := argument(call, 0, "x")) is not None:
            yield rows

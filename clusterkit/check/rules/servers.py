"""Rules about programs for jobs with parameter servers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from clusterkit.check.bindings import COMPREHENSIONS
from clusterkit.check.case import OUR_STRATEGY, PARAMETER_SERVER, Case, Hit
from clusterkit.check.findings import Severity
from clusterkit.check.source import Source, argument
from clusterkit.words.job import Servers
from clusterkit.words.model import Shape, TaskType, number_of

_SERVES = re.compile(r"(?i)(?<!parameter)(?<!parameter_)serve|task_type|TF_CONFIG")  # words in code for one task type
_REPEATS = (*COMPREHENSIONS, ast.Lambda)  # nodes in which calls may run several times
_FINITE = {f"Dataset.{name}" for name in ("from_tensor_slices", "from_tensors", "range")} | {
    "TFRecordDataset",
    "TextLineDataset",
}
_STAYS_FINITE = {"shuffle", "batch", "padded_batch", "prefetch", "map", "cache", "take", "skip", "with_options"}


def coordinator_everywhere(case: Case) -> Iterator[Hit]:
    """Find calls that create the coordinator's strategy in code that workers and parameter servers run, too."""
    told_apart = any(source.mentions(_SERVES) for source in case.sources)
    if case.job.servers is Servers.PROGRAM and _has_servers(case) and not told_apart:
        for source, _, call in case.calls(PARAMETER_SERVER):
            what = "All tasks run this line, but in workers and parameter servers, creating the strategy fails."
            advice = "Run with --servers builtin, or call clusterkit.training.serve() before this line."
            yield Hit(source.location(call), what, advice, severity=case.severity())


def fit_of_keras_3(case: Case) -> Iterator[Hit]:
    """Find calls of `fit` under parameter servers, which Keras 3 does not support."""
    for source, call in _scoped_calls(case, "fit") if case.keras == 3 else ():
        what = "fit of Keras 3 does not support ParameterServerStrategy, so this line fails."
        yield Hit(source.location(call), what, "Run with --keras 2.", severity=_severity(case, source, call))


def unscoped_layer(case: Case) -> Iterator[Hit]:
    """Find adapted layers that are used inside a strategy's scope, but created outside the scope."""
    for source in case.sources if _has_servers(case) else ():
        for name in _adapted(source):
            layer = source.value(name)
            is_layer = isinstance(layer, ast.Call) and source.dotted(layer.func).startswith("keras.layers.")
            used = any(_in_scope(source, use) and source.value(use) is layer for use in source.bindings.uses[name.id])
            if layer is not None and is_layer and used and not _in_scope(source, layer):
                what = (
                    "The layer is created outside the strategy's scope, so the layer's variables are on no parameter "
                    "server."
                )
                advice = "Create and adapt the layer inside `with strategy.scope():`."
                severity = _severity(case, source, layer) if case.keras == 2 else Severity.WARNING
                yield Hit(source.location(layer), what, advice, severity=severity)


def finite_data(case: Case) -> Iterator[Hit]:
    """Find finite datasets in `fit` and `evaluate` with parameter servers, since faster workers reach the end early."""
    for source, call in _scoped_calls(case, "fit", "evaluate"):
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        datasets = {"data": argument(call, 0, "x"), "validation_data": named.get("validation_data")}
        for name, value in datasets.items():
            if source.always(value, partial(_is_finite, source)):
                data = name.replace("_", " ")
                what = f"The {data} is finite, so a worker that reaches the end early fails with OutOfRangeError."
                steps = "validation_steps" if name != "data" else "steps_per_epoch" if _is_fit(call) else "steps"
                more = "" if steps in named else f", and set {steps}"
                yield Hit(source.location(call), what, f"Add .repeat() to the dataset{more}.", name)


def shard_of_one_pipeline(case: Case) -> Iterator[Hit]:
    """Find calls of `shard` that divide a dataset by the number of input pipelines.

    With parameter servers, this number is always 1.

    Programs that shuffle are ignored: their workers at least read in different orders, as in TensorFlow's tutorial.
    """
    for source in case.sources if _has_servers(case) and case.names({PARAMETER_SERVER, OUR_STRATEGY}) else ():
        calls = [call for _, call in source.calls()]
        for call in () if any(getattr(call.func, "attr", "") == "shuffle" for call in calls) else calls:
            is_shard = getattr(call.func, "attr", "") == "shard"
            if is_shard and any(getattr(arg, "attr", "") == "input_pipeline_id" for arg in call.args):
                what = (
                    "With parameter servers, num_input_pipelines is always 1, so each worker's shard is the whole "
                    "dataset, in the same order."
                )
                advice = "Remove shard(), and shuffle the dataset instead: dataset.shuffle(rows).repeat()."
                yield Hit(source.location(call), what, advice)


def one_step_at_a_time(case: Case) -> Iterator[Hit]:
    """Find loops that wait for each step before they schedule the next one, so that workers train one at a time."""
    workers = case.job.counts.get(TaskType.WORKER, 0)
    for source in case.sources if _has_servers(case) and workers > 1 else ():
        for loop in (node for node in source.nodes if isinstance(node, ast.For | ast.While)):
            calls = [
                node
                for statement in loop.body
                if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign)
                for node in ast.walk(statement)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            ]
            scheduled = [call for call in calls if getattr(call.func, "attr", "") == "schedule"]
            if any(isinstance(outer, _REPEATS) for call in scheduled for outer in source.enclosing(call)):
                continue
            waits = [call for call in calls if getattr(call.func, "attr", "") in ("join", "fetch") and not call.args]
            if len(scheduled) == 1 and waits:
                what = (
                    "The loop waits here for each step before it schedules the next step, so only one of "
                    f"{number_of('worker', workers)} trains at a time."
                )
                advice = "Schedule all steps of an epoch, and then call coordinator.join() once, after the loop."
                yield Hit(source.location(waits[0]), what, advice)


def _adapted(source: Source) -> Iterator[ast.Name]:
    for _, call in source.calls():
        match call.func:
            case ast.Attribute(value=ast.Name() as name, attr="adapt"):
                yield name


def _has_servers(case: Case) -> bool:
    return case.job.shape is Shape.PARAMETER_SERVER and case.is_distributed


def _is_fit(call: ast.Call) -> bool:
    return getattr(call.func, "attr", "") == "fit"


def _scoped_calls(case: Case, *methods: str) -> Iterator[tuple[Source, ast.Call]]:
    """Yield the calls of these methods on models that the program creates or compiles in a strategy's scope.

    Calls that some tasks do not reach are included, since servers leave the program before the training begins.
    """
    if not _has_servers(case) or not case.names({PARAMETER_SERVER, OUR_STRATEGY}):
        return
    for source in case.sources:
        for call in source.model_calls(*methods):
            model = getattr(call.func, "value", None)
            creation = source.value(model) if isinstance(model, ast.Name) else None
            if creation is not None and _in_scope(source, creation):
                yield source, call


def _severity(case: Case, source: Source, node: ast.AST) -> Severity:
    return case.severity(case.joins and case.applies(source, node))


def _in_scope(source: Source, node: ast.AST) -> bool:
    """Return whether the node is in a block such as `with strategy.scope():`."""
    blocks = (each for each in source.enclosing(node) if isinstance(each, ast.With))
    heads = (getattr(item.context_expr, "func", None) for block in blocks for item in block.items)
    return any(getattr(head, "attr", "") == "scope" for head in heads)


def _is_finite(source: Source, node: ast.AST) -> ast.AST | bool:
    """Return whether the value is a finite dataset; if this depends on another value, return that value."""
    match node:
        case ast.Call(func=func) if source.dotted(func).startswith("tensorflow.data."):
            return source.dotted(func).removeprefix("tensorflow.data.") in _FINITE
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _STAYS_FINITE:
            return owner
    return False

"""A rule about learning-rate schedules that count their calls in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.source import Source

_SCHEDULE = "keras.optimizers.schedules.LearningRateSchedule"
_EAGER = re.compile(r"run_eagerly|run_functions_eagerly|disable_eager_execution|disable_v2_behavior")


def counting_schedule(case: Case) -> Iterator[Hit]:
    """Find schedules that ignore the step and count their calls instead, in a program that compiles its steps."""
    if any(map(_is_eager, case.sources)):
        return
    if not any(map(_compiles, case.sources)) and not any(True for _ in case.fits()):
        return
    for source in case.sources:
        classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
        for each in (each for each in classes if _SCHEDULE in map(source.dotted, each.bases)):
            for method in each.body:
                change = _change(method) if isinstance(method, ast.FunctionDef) else None
                if change is not None:
                    what = (
                        "The schedule counts its calls in Python code, which runs only once, when TensorFlow compiles "
                        "the step, so the learning rate never changes."
                    )
                    advice = (
                        "Compute the learning rate from the step with TensorFlow operations: return self.rate * "
                        "self.decay ** tf.floor(tf.cast(step, tf.float32) / self.steps_per_epoch)."
                    )
                    yield Hit(source.location(change), what, advice)


def _change(method: ast.FunctionDef) -> ast.AST | None:
    """If a method `__call__` ignores the step, return the first statement such as `self.n += 1`; otherwise None."""
    names = [argument.arg for argument in method.args.args]
    if method.name != "__call__" or len(names) != 2 or "locals" in ast.dump(method):
        return None
    if any(isinstance(node, ast.Name) and node.id == names[1] for node in ast.walk(method)):
        return None
    for node in ast.walk(method):
        match node:
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=owner))) if owner == names[0]:
                return node
    return None


def _compiles(source: Source) -> bool:
    """Return whether gradients are applied in a tf.function, or in a function that a tf.function mentions."""
    functions = [node for node in source.nodes if isinstance(node, ast.FunctionDef)]
    found = [each for each in functions if any(_is_function(source, one) for one in each.decorator_list)]
    for each in found:  # the loop also visits the functions that it appends
        names = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(each)}
        found += [function for function in functions if function.name in names and function not in found]
    inside = (node for each in found for node in ast.walk(each))
    return any(isinstance(node, ast.Attribute) and node.attr == "apply_gradients" for node in inside)


def _is_eager(source: Source) -> bool:
    """Return whether the file may run steps eagerly, or switch to the behavior of TensorFlow 1."""
    return source.mentions(_EAGER) or any(getattr(node, "arg", None) == "run_eagerly" for node in source.nodes)


def _is_function(source: Source, decorator: ast.expr) -> bool:
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    return source.dotted(func) == "tensorflow.function"

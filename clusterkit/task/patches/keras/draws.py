"""Lets the layers of a step draw the random numbers that they draw in a single process: see step.py.

A layer computes the rows of one worker, and all workers have the same seeds. So a worker draws the numbers of the whole
batch and takes those of its own rows; if it drew numbers for its rows alone, they would be those of the first rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

_OPERATIONS = "tensorflow.python.ops"
# Maps modules of TensorFlow to their random operations whose first argument is the shape of the result.
DRAWS = {
    f"{_OPERATIONS}.gen_stateless_random_ops_v2": (
        "stateless_random_normal_v2",
        "stateless_random_uniform_v2",
        "stateless_random_uniform_int_v2",
        "stateless_random_uniform_full_int_v2",
        "stateless_truncated_normal_v2",
    ),
    f"{_OPERATIONS}.gen_random_ops": (
        "random_standard_normal",
        "random_uniform",
        "random_uniform_int",
        "truncated_normal",
    ),
}


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError, KeyError or AssertionError if internals differ."""
    assert all(callable(operation) for _, _, operation in _operations())
    return (draw_whole,)


def _operations() -> Iterator[tuple[Any, str, Any]]:
    for module, names in DRAWS.items():
        for name in names:
            yield sys.modules[module], name, getattr(sys.modules[module], name)


def draw_whole(trainer: Any, load: Any) -> None:
    """Patch TensorFlow's random operations: in a layer, they draw for the whole batch, and return this replica's rows.

    A shape belongs to the rows if its first dimension is unknown when the step is traced, as the size of the batch is,
    and is a multiple of the replica's number of rows.
    """
    steps, replace = load("task/patches/keras/step"), load("task/patches/hook").replace

    def patched(draw: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(shape: Any, *args: Any, **kwargs: Any) -> Any:
            step = steps.current()
            if step is None or not step.is_local or step.span is None or not varies(trainer.tf, step, shape):
                return draw(shape, *args, **kwargs)
            return own_rows(trainer.tf, step, shape, lambda whole: draw(whole, *args, **kwargs))

        return __call__

    for module, name, draw in _operations():
        replace(module, name, patched(draw))


def varies(tf: Any, step: Any, shape: Any) -> bool:
    """Return whether the first dimension of a shape may be a number of rows of the batch."""
    static = sys.modules["tensorflow.python.framework.tensor_util"].constant_value_as_shape(tf.convert_to_tensor(shape))
    if not static.rank:
        return False
    if tf.executing_eagerly():
        return bool(static[0] == step.span.length)
    return static[0] is None


def own_rows(tf: Any, step: Any, shape: Any, draw: Callable[[Any], Any]) -> Any:
    """Return this replica's rows of the numbers that `draw` returns for the shape of the whole batch."""
    shape = tf.convert_to_tensor(shape)
    rows, span = tf.cast(shape[0], tf.int32), _span(tf, step)
    is_of_batch = tf.equal(rows % tf.maximum(span.length, 1), 0)
    own = span.times(tf, rows)
    total = tf.where(is_of_batch, own.total, rows)
    # A replica without rows computes a row of another one: see `Step.split`.
    start = tf.where(is_of_batch, tf.minimum(own.start, tf.maximum(own.total - rows, 0)), 0)
    whole = draw(tf.concat([[tf.cast(total, shape.dtype)], shape[1:]], 0))
    part = whole[start : start + rows]
    part.set_shape([None, *whole.shape[1:]])
    return part


def _span(tf: Any, step: Any) -> Any:
    """Return this replica's rows as tensors that the graph which is being built can use.

    The graph of a function of the program may be used in other steps, so it reads the numbers of rows anew.
    """
    if tf.executing_eagerly() or _reaches(tf, step.span.total):
        return step.span
    return step.span_of(tf.reduce_sum(step.counts))


def _reaches(tf: Any, tensor: Any) -> bool:
    """Return whether the current graph is a tensor's graph, or a branch or loop inside it."""
    graph = tf.compat.v1.get_default_graph()
    while graph is not tensor.graph and getattr(graph, "is_control_flow_graph", False):
        graph = graph.outer_graph
    return graph is tensor.graph

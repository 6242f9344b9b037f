"""Patches the steps of Keras 3 on several workers to count rows, and to give each replica at least one row.

At the end of the data, some replicas have fewer rows than others, or none. In a replica without rows, batch
normalization computes NaN, which spreads to all replicas, and convolutions fail with an invalid shape (oneDNN). With
the patch, such a replica computes a row of another replica, and discards the results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError or AssertionError if Keras's internals differ."""
    model = trainer.TensorFlowTrainer
    assert callable(model._make_function)
    assert callable(model.predict_step)
    assert callable(model.predict_on_batch)
    return count_rows, predict_own_rows, predict_once


def count_rows(trainer: Any, load: Any) -> None:
    """Patch a model's steps to count rows, to compute at least one row, and to return logs for the whole batch."""
    model, tf = trainer.TensorFlowTrainer, trainer.tf
    fit, steps, logs, state = (load(f"task/patches/keras/{name}") for name in ("fit", "step", "logs", "state"))
    make = model._make_function

    def with_rows(self: Any, step_function: Any) -> Any:
        def step(data: Any) -> Any:
            rows = rows_of(trainer, data)
            current = steps.begin(tf, tf.constant(1) if rows is None else rows)
            variables = [variable for variable in per_replica(tf, self) if rows is not None]
            before = [tf.identity(variable.value) for variable in variables]
            with steps.computing(current), logs.recording(current, self.metrics, trainer.tree):
                outputs = step_function(data if rows is None else with_at_least_one_row(trainer, data, current, steps))
            for notice in state.notices(current, self):
                fit.say_once(tf, notice)
            for variable, value in zip(variables, before, strict=True):
                variable.value.assign(tf.where(current.rows > 0, tf.identity(variable.value), value))
            return logs.of_all_replicas(current, outputs, trainer.tree, steps.wider)

        step.autograph_info__ = None  # type: ignore[attr-defined]
        return step

    def _make_function(self: Any, step_function: Any) -> Any:
        if fit.is_multi_worker(tf, self.distribute_strategy):
            state.distribute(self.distribute_strategy, self)
            if self.jit_compile:
                fit.say_once(tf, "jit_compile=True is not supported on several workers and is ignored.")
                self.jit_compile = False
            return in_python(tf, self, partial(make, self, with_rows(self, step_function)))
        return make(self, step_function)

    load("task/patches/hook").replace(model, "_make_function", _make_function)


def in_python(tf: Any, model: Any, make: Callable[[], Any]) -> Any:
    """Return a function that runs `steps_per_execution` steps in a Python loop, or fewer at the end of the data.

    TensorFlow can't run the steps of several workers in a loop of a graph. If a worker's step fails at the end of its
    data, the other workers sometimes wait forever for that worker's last message (TensorFlow 2.21).
    """
    count, model.steps_per_execution = model.steps_per_execution, 1
    one_step = make()
    model.steps_per_execution = count

    def function(iterator: Any) -> Any:
        model.steps_per_execution, outputs = 1, None  # Keras reads `steps_per_execution` while it traces `one_step`
        try:
            for _ in range(count):
                if (data := next_input(tf, iterator)) is None:
                    break
                outputs = one_step(data)
        finally:
            model.steps_per_execution = count
        if outputs is None:
            raise StopIteration
        return outputs

    return function


def next_input(tf: Any, iterator: Any) -> Any:
    """Return an iterator from which the next step reads its batch; None at the end of the data."""
    number = getattr(iterator, "_cardinality", tf.data.INFINITE_CARDINALITY)
    if number >= 0:
        iterator.batches_read = getattr(iterator, "batches_read", 0) + 1
        return iterator if iterator.batches_read <= number else None
    if number == tf.data.INFINITE_CARDINALITY:
        return iterator
    batch = iterator.get_next_as_optional()
    return iter([batch.get_value()]) if batch.has_value() else None


def predict_own_rows(trainer: Any, load: Any) -> None:
    """Patch `predict_step` to return no rows in a replica without rows, which computes another replica's row."""
    model, tf = trainer.TensorFlowTrainer, trainer.tf
    fit, steps = load("task/patches/keras/fit"), load("task/patches/keras/step")
    predict = model.predict_step

    def predict_step(self: Any, data: Any) -> Any:
        rows = rows_of(trainer, data) if fit.is_multi_worker(tf, tf.distribute.get_strategy()) else None
        if rows is None:
            return predict(self, data)
        outputs = predict(self, with_at_least_one_row(trainer, data, steps.begin(tf, rows), steps))
        return trainer.tree.map_structure(lambda value: value[: tf.where(rows > 0, tf.shape(value)[0], 0)], outputs)

    load("task/patches/hook").replace(model, "predict_step", predict_step)


def predict_once(trainer: Any, load: Any) -> None:
    """Patch `predict_on_batch` to return each row only once, since every replica computes the whole batch."""
    model, tf = trainer.TensorFlowTrainer, trainer.tf
    fit, predict = load("task/patches/keras/fit"), model.predict_on_batch

    def predict_on_batch(self: Any, x: Any) -> Any:
        outputs, strategy = predict(self, x), self.distribute_strategy
        if not fit.is_multi_worker(tf, strategy):
            return outputs
        return trainer.tree.map_structure(lambda rows: rows[: len(rows) // strategy.num_replicas_in_sync], outputs)

    load("task/patches/hook").replace(model, "predict_on_batch", predict_on_batch)


def per_replica(tf: Any, model: Any) -> list[Any]:
    """Return the model's variables whose values may differ between replicas, such as those of metrics."""
    every = [*(variable for metric in model.metrics for variable in metric.variables), *model.non_trainable_variables]
    on_read = tf.VariableSynchronization.ON_READ
    by_id = {id(each): each for each in every if getattr(each.value, "synchronization", None) == on_read}
    return list(by_id.values())


def rows_of(trainer: Any, data: Any) -> Any:
    """Return the number of rows in a replica's data: the first input's first dimension. Return None for a scalar."""
    values = [value for value in trainer.tree.flatten(data) if value is not None]
    shape = trainer.tf.TensorShape(getattr(values[0], "shape", ()) if values else ())
    return trainer.tf.shape(values[0])[0] if shape.rank else None


def with_at_least_one_row(trainer: Any, data: Any, step: Any, steps: Any) -> Any:
    """Return the data or, if the data has no rows, a row of another replica. Do not change sparse or ragged tensors."""
    tf, tree = trainer.tf, trainer.tree
    leaves = tree.flatten(data)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, tf.Tensor) and leaf.shape.rank]
    if not places:
        return data
    dense = [leaves[place] for place in places]
    filled = tf.cond(tf.reduce_any(step.counts == 0), lambda: own_or_borrowed(step, dense, steps.wider), lambda: dense)
    for place, value in zip(places, filled, strict=True):
        value.set_shape([None, *leaves[place].shape[1:]])
        leaves[place] = value
    return tree.pack_sequence_as(data, leaves)


def own_or_borrowed(step: Any, values: list[Any], wider: Callable[[Any], str]) -> list[Any]:
    """Return the values; in a replica without rows, return the first row of the first replica with rows.

    TensorFlow can't send strings between workers, so a row of strings is replaced by empty strings.
    """
    tf = step.tf
    gives = tf.equal(tf.cast(step.place, tf.int64), tf.argmax(step.counts > 0))
    own = tf.concat([tf.shape(value)[1:] for value in values], 0)
    shapes = tf.split(sum_of_all(tf, tf.where(gives, own, 0)), [value.shape.rank - 1 for value in values])

    def row(value: Any, shape: Any) -> Any:
        if value.dtype == tf.string:
            return tf.fill(shape, "")
        wide = tf.cast(value, wider(value.dtype))
        first = tf.cond(gives, lambda: tf.reduce_sum(wide[:1], 0), lambda: tf.zeros(shape, wide.dtype))
        return tf.cast(sum_of_all(tf, first), value.dtype)

    rows = [row(value, shape)[None] for value, shape in zip(values, shapes, strict=True)]
    return [
        tf.cond(step.rows > 0, lambda value=value: value, lambda one=one: one)
        for value, one in zip(values, rows, strict=True)
    ]


def sum_of_all(tf: Any, value: Any) -> Any:
    """Return the sum over all replicas. Unlike the replica context's `all_reduce`, this works inside `tf.cond`."""
    extended = tf.distribute.get_strategy().extended
    return extended._replica_ctx_all_reduce(tf.distribute.ReduceOp.SUM, [value])[0]

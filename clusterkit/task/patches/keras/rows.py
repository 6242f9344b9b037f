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
    return compute_whole, predict_own_rows, predict_single_batches


def compute_whole(trainer: Any, load: Any) -> None:
    """Patch a model's steps to compute with the rows of all replicas."""
    model, tf, tree = trainer.TensorFlowTrainer, trainer.tf, trainer.tree
    fit, steps, metrics, state = (load(f"task/patches/keras/{name}") for name in ("fit", "step", "metrics", "state"))
    make = model._make_function

    def with_all_rows(self: Any, step_function: Any) -> Any:
        def step(data: Any) -> Any:
            current, batch = begun(trainer, steps, data)
            with steps.computing(current), metrics.reading(trainer, load, current, self.metrics):
                outputs = tree.map_structure(partial(read, tf), step_function(batch))
            for notice in state.notices(current, self):
                fit.say_once(notice)
            return outputs

        step.autograph_info__ = None  # type: ignore[attr-defined]
        return step

    def _make_function(self: Any, step_function: Any) -> Any:
        if fit.is_multi_worker(tf, self.distribute_strategy):
            state.distribute(self.distribute_strategy, self)
            if self.jit_compile:
                fit.say_once("jit_compile=True is not supported on several workers and is ignored.")
                self.jit_compile = False
            part = partial(part_of_batch, tree, self.distribute_strategy)
            return in_python(tf, self, partial(make, self, with_all_rows(self, step_function)), part)
        return make(self, step_function)

    load("task/patches/hook").replace(model, "_make_function", _make_function)


def begun(trainer: Any, steps: Any, data: Any) -> tuple[Any, Any]:
    """Begin a step with this replica's rows; return the step and the batch with the rows of all replicas."""
    tf, rows = trainer.tf, rows_of(trainer, data)
    step = steps.begin(tf, tf.constant(1) if rows is None else rows)
    if rows is None:
        return step, data

    def whole(leaf: Any) -> Any:
        if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank or leaf.dtype == tf.string:
            step.undivided[id(leaf)] = leaf
            return leaf
        if step.graph is not None:  # forget the number of rows: tensors whose number is unknown have rows
            leaf = tf.compat.v1.placeholder_with_default(leaf, [None, *leaf.shape[1:]])
        return step.join(leaf, step.data)

    return step, trainer.tree.map_structure(whole, with_at_least_one_row(trainer, data, step))


def read(tf: Any, value: Any) -> Any:
    """Return the value of a TensorFlow or Keras variable; return any other object unchanged."""
    value = value if callable(getattr(value, "value", None)) else getattr(value, "value", value)
    return tf.convert_to_tensor(value) if isinstance(value, tf.Variable) else value


def in_python(tf: Any, model: Any, make: Callable[[], Any], part: Callable[[Any], Any]) -> Any:
    """Return a function that runs `steps_per_execution` steps in a Python loop, or fewer at the end of the data.

    A batch that is given to `train_on_batch` is the same in every worker; `part` returns this worker's part of it.

    TensorFlow can't run the steps of several workers in a loop of a graph. If a worker's step fails at the end of its
    data, the other workers sometimes wait forever for that worker's last message (TensorFlow 2.21).
    """
    count, model.steps_per_execution = model.steps_per_execution, 1
    one_step = make()
    model.steps_per_execution = count

    def function(iterator: Any) -> Any:
        if not isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            iterator = map(part, iterator)
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
    """Patch `predict_step` to compute with the rows of all replicas, and to return this replica's rows."""
    model, tf = trainer.TensorFlowTrainer, trainer.tf
    fit, steps = load("task/patches/keras/fit"), load("task/patches/keras/step")
    predict = model.predict_step

    def predict_step(self: Any, data: Any) -> Any:
        several = fit.is_multi_worker(tf, tf.distribute.get_strategy())
        if not several or steps.current() is not None or rows_of(trainer, data) is None:
            return predict(self, data)
        step, batch = begun(trainer, steps, data)

        def own(output: Any) -> Any:
            if not isinstance(output, tf.Tensor) or not output.shape.rank:
                return output
            part, span = step.parts.get(output.ref()) or (None, step.span_of(tf.shape(output)[0]))
            part = step.split(output, span) if part is None else part
            return part[: span.times(tf, tf.shape(part)[0]).size]

        with steps.computing(step):
            return trainer.tree.map_structure(own, predict(self, batch))

    load("task/patches/hook").replace(model, "predict_step", predict_step)


def predict_single_batches(trainer: Any, load: Any) -> None:
    """Patch `predict_on_batch`, whose batch every worker has, to give each worker its part of the batch."""
    model, fit, plain = (
        trainer.TensorFlowTrainer,
        load("task/patches/keras/fit"),
        trainer.TensorFlowTrainer.predict_on_batch,
    )

    def predict_on_batch(self: Any, x: Any) -> Any:
        divides = fit.is_multi_worker(trainer.tf, self.distribute_strategy)
        return plain(self, part_of_batch(trainer.tree, self.distribute_strategy, x) if divides else x)

    load("task/patches/hook").replace(model, "predict_on_batch", predict_on_batch)


def part_of_batch(tree: Any, strategy: Any, batch: Any) -> Any:
    """Return this worker's rows of a batch that every worker has."""
    count, place = strategy.extended._num_workers, strategy.extended._id_in_cluster

    def part(leaf: Any) -> Any:
        rows = len(leaf) if getattr(leaf, "shape", ()) else 0
        return leaf[rows * place // count : rows * (place + 1) // count] if rows else leaf

    return tree.map_structure(part, batch)


def rows_of(trainer: Any, data: Any) -> Any:
    """Return the number of rows in a replica's data: the first input's first dimension. Return None for a scalar."""
    values = [value for value in trainer.tree.flatten(data) if value is not None]
    shape = trainer.tf.TensorShape(getattr(values[0], "shape", ()) if values else ())
    return trainer.tf.shape(values[0])[0] if shape.rank else None


def with_at_least_one_row(trainer: Any, data: Any, step: Any) -> Any:
    """Return the data or, if the data has no rows, a row of another replica. Do not change sparse or ragged tensors."""
    tf, tree = trainer.tf, trainer.tree
    leaves = tree.flatten(data)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, tf.Tensor) and leaf.shape.rank]
    if not places:
        return data
    dense = [leaves[place] for place in places]
    filled = tf.cond(tf.reduce_any(step.counts == 0), lambda: own_or_borrowed(step, dense), lambda: dense)
    for place, value in zip(places, filled, strict=True):
        value.set_shape([None, *leaves[place].shape[1:]])
        leaves[place] = value
    return tree.pack_sequence_as(data, leaves)


def own_or_borrowed(step: Any, values: list[Any]) -> list[Any]:
    """Return the values; in a replica without rows, return the first row of the first replica with rows.

    TensorFlow can't send strings between workers, so a row of strings is replaced by empty strings.
    """
    tf = step.tf
    gives = tf.equal(tf.cast(step.place, tf.int64), tf.argmax(step.counts > 0))
    own = tf.concat([tf.shape(value)[1:] for value in values], 0)
    (shape,) = step.sum_of_all([tf.where(gives, own, 0)])
    shapes = tf.split(shape, [value.shape.rank - 1 for value in values])

    def row(value: Any, shape: Any) -> Any:
        if value.dtype == tf.string:
            return tf.fill(shape, "")
        wide = tf.cast(value, step.wider(value.dtype))
        first = tf.cond(gives, lambda: tf.reduce_sum(wide[:1], 0), lambda: tf.zeros(shape, wide.dtype))
        return tf.cast(step.sum_of_all([first])[0], value.dtype)

    rows = [row(value, shape)[None] for value, shape in zip(values, shapes, strict=True)]
    return [
        tf.cond(step.rows > 0, lambda value=value: value, lambda one=one: one)
        for value, one in zip(values, rows, strict=True)
    ]

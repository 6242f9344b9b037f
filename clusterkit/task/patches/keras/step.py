"""The step of training or testing that a replica is computing: which rows are its own, and how parts become the whole.

In a step, the program computes what it computes in a single process: its tensors are those of the whole batch, and are
the same in all replicas. Only the calls of layers (and Keras's own losses and metrics) are divided: a replica computes
a part of the rows, and the parts are joined. Two functions lead from one space to the other, each the other's gradient:

- `join` concatenates the parts of all replicas. Its gradient is the replica's part of the gradient, times the number of
  replicas.
- `split` returns the replica's part of a tensor. Its gradient is the joined gradient, divided by that number.

So the mean over all replicas of a variable's gradients is the gradient of the whole batch, whatever the program
computes: what a layer contributes is in one replica, times the number of replicas, and what the program itself adds
(such as the regularization of weights) is in all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import get_ident
from typing import Any
from weakref import WeakSet

# Operations whose results do not depend on the values in one replica's rows: shapes, and collective operations.
NO_ROWS = ("Shape", "Size", "Rank", "ZerosLike", "OnesLike", "Collective")
# Maps each type that TensorFlow can't add up over workers, or not exactly, to the type in which the sum is computed.
WIDER = {
    **dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), "int32"),
    "uint32": "int64",
    **dict.fromkeys(("float16", "bfloat16"), "float32"),
}


class RowSpan:
    """The rows of a tensor that belong to this replica: `size` rows from `start`, of `total` rows of all replicas.

    `length` is the number of rows that the replica computes: a replica without rows computes one, which is discarded.
    """

    def __init__(self, tf: Any, start: Any, size: Any, total: Any) -> None:
        self.start = start
        self.size = size
        self.total = total
        self.length = tf.maximum(size, tf.minimum(total, 1))

    def times(self, tf: Any, rows: Any) -> RowSpan:
        """Return the span of a tensor in which this replica computed `rows` rows, such as several for each row."""
        times = rows // tf.maximum(self.length, 1)
        return RowSpan(tf, self.start * times, self.size * times, self.total * times)

    def of_rows(self, tf: Any, rows: Any) -> RowSpan:
        """Return this span for a tensor with `total` rows; for a tensor with other rows, the span of all of them."""
        is_divided = rows == self.total
        return RowSpan(tf, tf.where(is_divided, self.start, 0), tf.where(is_divided, self.size, rows), rows)


class Step:
    """One replica's step. `place` is the replica's index, and `number` its index among those of this process."""

    def __init__(self, tf: Any, counts: Any, kept: Any) -> None:
        context = tf.distribute.get_replica_context()
        library = sys.modules["tensorflow.python.distribute.distribute_lib"]
        self.tf = tf
        self.place = context.strategy.extended._get_replica_id_in_sync_group(context._replica_id)
        self.number = context._replica_id
        self.replicas = context.num_replicas_in_sync
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._modes = {True: library._get_per_thread_mode(), False: library._get_default_replica_mode()}
        self.alone = self._modes[False].strategy  # the strategy that the program sees in a step
        self._counts = {self.graph: counts}
        self._kept = kept
        self.is_local = True  # False while the program computes with the whole batch
        self.parts: dict[Any, tuple[Any, RowSpan]] = {}  # maps references to joined tensors to this replica's parts
        self.undivided: dict[int, Any] = {}  # by id, data that can't be joined, such as text: each replica has its own
        self.data: RowSpan | None = None  # this replica's rows of the batch
        self.span: RowSpan | None = None  # this replica's rows in the layer that is being called
        self.results: dict[int, list[Any]] = {}  # maps ids of metrics to their variables, added up over the replicas

    @property
    def counts(self) -> Any:
        """Return the number of rows of each replica, as a tensor of the graph that is being built.

        A function of the program's may be traced in one step and be called in another, so it may not refer to a tensor
        of this step. It reads the numbers from a variable.
        """
        graph = None if self.tf.executing_eagerly() else self.tf.compat.v1.get_default_graph()
        if graph not in self._counts:
            self._counts[graph] = self._kept.read_value()
        return self._counts[graph]

    @property
    def rows(self) -> Any:
        return self.counts[self.place]

    @property
    def share(self) -> Any:
        """Return this replica's fraction of the batch's rows."""
        counts = self.tf.cast(self.counts, self.tf.float32)
        return self.tf.math.divide_no_nan(counts[self.place], self.tf.reduce_sum(counts))

    def span_of(self, total: Any) -> RowSpan:
        """Divide `total` rows among the replicas, in the ratio of their rows of the batch."""
        ends = self.tf.math.cumsum(self.tf.cast(self.counts, self.tf.int64))
        ends = self.tf.cast(self.tf.cast(total, self.tf.int64) * ends // self.tf.maximum(ends[-1], 1), self.tf.int32)
        start = ends[self.place - 1] if self.place else self.tf.zeros((), self.tf.int32)
        return RowSpan(self.tf, start, ends[self.place] - start, total)

    def sum_of_all(self, values: list[Any]) -> list[Any]:
        """Return each tensor's sum over all replicas. Gradients do not pass."""
        wide = [self.tf.cast(value, self.wider(value.dtype)) for value in values]
        with self.mode(local=True), self.in_any_order():
            extended = self.tf.distribute.get_strategy().extended
            sums = extended._replica_ctx_all_reduce(self.tf.distribute.ReduceOp.SUM, wide)
        return [self.tf.cast(each, value.dtype) for each, value in zip(sums, values, strict=True)]

    @staticmethod
    def wider(dtype: Any) -> Any:
        """Return the type in which TensorFlow can add up numbers of this type over workers."""
        return WIDER.get(dtype.name, dtype)

    @contextmanager
    def in_any_order(self) -> Iterator[None]:
        """Within the context, the collective operations of a graph need not wait for each other.

        TensorFlow orders them, which NCCL needs; then a step waits for predictions that only its metrics need.
        """
        launcher = sys.modules["tensorflow.python.distribute.cross_device_utils"].CollectiveReplicaLauncher
        ordered = launcher._prefer_ordering_token
        launcher._prefer_ordering_token = ordered and bool(self.tf.config.list_logical_devices("GPU"))
        try:
            yield
        finally:
            launcher._prefer_ordering_token = ordered

    @contextmanager
    def only_if_used(self) -> Iterator[None]:
        """Within the context, a collective operation is left out of the step if nothing uses its result."""
        if self.tf.executing_eagerly():
            yield
            return
        graph = self.tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        yield
        droppable.update(each for each in graph.get_operations()[before:] if each.type.startswith("Collective"))

    def join(self, part: Any, span: RowSpan) -> Any:
        """Concatenate the parts of all replicas in the order of the replicas, and remember this replica's part."""
        rows = span.times(self.tf, self.tf.shape(part)[0])
        with self.only_if_used():
            whole = self._joined(part, rows.start, rows.size, rows.total)
        whole.set_shape([None, *part.shape[1:]])
        self.parts[whole.ref()] = part, span
        mask = getattr(part, "_keras_mask", None)
        if mask is not None:
            whole._keras_mask = self.join(mask, span)
        return whole

    def is_joined(self, value: Any) -> bool:
        """Return whether `join` has returned this object, so that this replica's part is known."""
        return isinstance(value, self.tf.Tensor) and value.ref() in self.parts

    def split(self, whole: Any, span: RowSpan) -> Any:
        """Return this replica's part of a tensor; in a replica without rows, a row of another one."""
        tf = self.tf

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def split(whole: Any) -> Any:
            start = tf.minimum(span.start, tf.maximum(span.total - 1, 0))

            def grad(upstream: Any) -> Any:
                upstream = tf.convert_to_tensor(upstream)
                return self._joined(upstream, span.start, span.size, span.total) / self._number(upstream)

            return whole[start : start + span.length], grad

        part = split(whole)
        part.set_shape([None, *whole.shape[1:]])
        return part

    def _joined(self, part: Any, start: Any, size: Any, total: Any) -> Any:
        tf = self.tf
        length = tf.shape(part)[0]

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def joined(part: Any) -> Any:
            around = [[start, total - start - size], *[[0, 0]] * (part.shape.rank - 1)]
            (whole,) = self.sum_of_all([tf.pad(part[:size], around)])

            def grad(upstream: Any) -> Any:
                return self._cut(tf.convert_to_tensor(upstream), start, size, length) * self._number(upstream)

            return whole, grad

        return joined(part)

    def _cut(self, whole: Any, start: Any, size: Any, length: Any) -> Any:
        """Return this replica's rows, followed by zeros if `length` is more than `size`."""
        tf = self.tf
        total = tf.shape(whole)[0]

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def cut(whole: Any) -> Any:
            part = tf.pad(whole[start : start + size], [[0, length - size], *[[0, 0]] * (whole.shape.rank - 1)])

            def grad(upstream: Any) -> Any:
                upstream = tf.convert_to_tensor(upstream)
                return self._joined(upstream, start, size, total) / self._number(upstream)

            return part, grad

        return cut(whole)

    def _number(self, like: Any) -> Any:
        return self.tf.cast(self.replicas, like.dtype)

    def weighed(self, value: Any) -> Any:
        """Return the mean of the replicas' numbers, weighed by rows: the whole batch's mean, if each is a mean."""
        tf = self.tf

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def weighed(value: Any) -> Any:
            share = tf.cast(self.share, value.dtype)
            (mean,) = self.sum_of_all([tf.math.multiply_no_nan(value, share)])
            return mean, lambda upstream: upstream * share * self._number(value)

        return weighed(value)

    def shared(self, value: Any) -> Any:
        """Pass a number of the whole batch on to what each replica computes from its own rows."""

        @self.tf.custom_gradient  # type: ignore[untyped-decorator]
        def shared(value: Any) -> Any:
            def grad(upstream: Any) -> Any:
                return self.sum_of_all([upstream])[0] / self._number(upstream)

            return self.tf.identity(value), grad

        return shared(value)

    def mean_of_all(self, values: list[Any]) -> list[Any]:
        """Return the mean of each gradient over the replicas. Gradients of the means pass as they are."""
        tf = self.tf

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def means(*values: Any) -> Any:
            sums = self.sum_of_all(list(values))
            return [each / self._number(each) for each in sums], lambda *upstream: upstream

        return list(means(*values)) if values else []

    def copy_of(self, variable: Any) -> Any:
        """Return this replica's copy of a distributed variable; any other object unchanged."""
        copies = getattr(variable, "_values", None)
        return copies[self.number] if isinstance(copies, tuple | list) else variable

    @contextmanager
    def mode(self, local: bool) -> Iterator[None]:
        """Within the context, compute a part, as one of several replicas; or the whole, as in a single process."""
        graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
        stack, was_local = graph._distribution_strategy_stack, self.is_local
        # A function that is traced with the whole batch is not reused elsewhere, since its key includes the devices.
        mark = nullcontext() if local or self.tf.executing_eagerly() else graph.device(_anywhere)
        stack.append(self._modes[local])
        self.is_local = local
        try:
            with mark:
                yield
        finally:
            self.is_local = was_local
            stack.pop()

    def is_of_rows(self, value: Any) -> bool:
        """Return whether a tensor of a graph depends on the values in this replica's own rows."""
        waiting, seen = [value], set[int]()
        while waiting:
            tensor = waiting.pop()
            if not self.tf.is_tensor(tensor) or id(tensor) in seen or hasattr(tensor, "numpy"):
                continue
            seen.add(id(tensor))
            inputs = sources(tensor)
            if tensor.op.type == "Placeholder" and not inputs:
                return True
            if not tensor.op.type.startswith(NO_ROWS):
                waiting.extend(inputs)
        return False


def _anywhere(operation: Any) -> str:
    return str(operation.device)


def sources(tensor: Any) -> list[Any]:
    """Return the tensors from which a tensor of a graph is directly computed.

    A branch of a condition is a separate graph; its placeholders stand for tensors of the outer graph. IdentityN
    passes each input on as the output of the same number, so such an output is computed from that input alone.
    """
    operation = tensor.op
    if operation.type == "Placeholder":
        return [outer for outer, inner in getattr(tensor.graph, "captures", ()) if inner is tensor]
    inputs = list(operation.inputs)
    return [inputs[tensor.value_index]] if operation.type == "IdentityN" else inputs


droppable: WeakSet[Any] = WeakSet()  # collective operations that are not needed if nothing uses their results
_steps: dict[int, Step] = {}  # each replica's current step, by the replica's thread
_kept: dict[int, Any] = {}  # variables with the numbers of rows, by the replica's number in this process


def current() -> Step | None:
    """Return the step that this thread's replica computes; None outside a step."""
    return _steps.get(get_ident()) if _steps else None


def whole() -> Step | None:
    """Return the current step if the program is computing with the whole batch; None in a layer, or outside a step."""
    step = current()
    return None if step is None or step.is_local else step


@contextmanager
def computing(step: Step) -> Iterator[None]:
    """Within the context, make `current` return `step` in this thread, with the whole batch."""
    _steps[get_ident()] = step
    try:
        with step.mode(local=False):
            yield
    finally:
        del _steps[get_ident()]


def begin(tf: Any, rows: Any) -> Step:
    """Exchange the replicas' numbers of rows; return this replica's step. `rows` is this replica's number of rows."""
    context = tf.distribute.get_replica_context()
    count = context.num_replicas_in_sync
    counts = context.all_reduce("SUM", tf.one_hot(context.replica_id_in_sync_group, count, dtype=tf.int32) * rows)
    if context._replica_id not in _kept:
        variables = sys.modules["tensorflow.python.ops.resource_variable_ops"]
        with tf.init_scope(), tf.device("CPU:0"):  # a local variable, even in a strategy's scope
            _kept[context._replica_id] = variables.ResourceVariable(
                [0] * count, dtype=tf.int32, trainable=False, name="clusterkit_rows"
            )
    kept = _kept[context._replica_id]
    kept.assign(counts)
    step = Step(tf, counts, kept)
    step.data = step.span_of(tf.reduce_sum(counts))
    return step

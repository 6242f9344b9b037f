"""The step of training, testing or prediction that a replica is computing. The patches of Keras share this file.

Keras adds up the gradients of all replicas, so each replica's loss has to be a part of the whole batch's loss. To
convert a loss into its part, the patches multiply or divide it by marked tensors. A logged value that depends on a
marked tensor is therefore a part, and is added up over the replicas. Any other value is averaged, weighted by rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Operations whose results do not depend on the values in one replica's rows: shapes, and collective operations.
NO_ROWS = ("Shape", "Size", "Rank", "ZerosLike", "OnesLike", "Collective")
# Maps each type that TensorFlow can't add up over workers to the type in which the sum is computed.
WIDER = {"bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}


class Step:
    """One replica's step. `counts` is a vector with every replica's number of rows; `place` is this replica's index.

    `share` is this replica's fraction of the rows. `scale` is a marked copy of `share`; only losses use `scale`.
    """

    def __init__(self, tf: Any, counts: Any, place: Any) -> None:
        self.tf = tf
        self.counts = counts
        self.place = place
        self.rows = counts[place]
        self.total = tf.reduce_sum(counts)
        self.before = tf.reduce_sum(counts[:place])  # the number of rows of the replicas before this one
        self.share = tf.math.divide_no_nan(tf.cast(self.rows, tf.float32), tf.cast(self.total, tf.float32))
        self.marks: set[Any] = set()
        self.whole: set[Any] = set()  # references to the tensors that `as_whole` has returned
        self.results: dict[Any, tuple[Any, int]] = {}  # maps a metric's result to the metric, and the result's index
        self.in_loss: list[Any] = []  # the predictions of each loss call that is running, innermost last
        self.has_all_rows = False  # True while a loss is being computed from the rows of all replicas
        self.has_sums = False  # True if the optimizer already has the gradients summed over the replicas
        self.accumulates = False  # True if gradients are accumulated over several steps
        self.scale = self.mark(self.share)

    @property
    def is_eager(self) -> bool:
        """Return whether the step runs eagerly, without a graph that shows which tensors depend on marked tensors."""
        return hasattr(self.share, "numpy")

    def mark(self, value: Any) -> Any:
        """Return a marked copy of a tensor. A tensor that depends on the copy counts as a part of the batch's loss."""
        marked = self.tf.identity(value)
        self.marks.add(marked.ref())
        return marked

    def as_part(self, mean: Any) -> Any:
        """Convert a mean over this replica's rows into this replica's part of the mean over all rows."""
        part = self.tf.math.multiply_no_nan(mean, self.tf.cast(self.scale, mean.dtype))
        self.marks.add(part.ref())  # for an eager step, in which `is_part` knows only marked tensors
        return part

    def own(self, value: Any) -> Any:
        """Return the value; but in a replica without rows, which computes another replica's row, return zeros."""
        return self.tf.math.multiply_no_nan(value, self.tf.cast(self.rows > 0, value.dtype))

    def as_whole(self, part: Any) -> Any:
        """Divide this replica's part of the batch's loss by `share`, and return this estimate of the whole loss."""
        whole = self.tf.math.divide_no_nan(part, self.tf.cast(self.share, part.dtype))
        self.whole.add(whole.ref())
        return whole

    def is_part(self, value: Any) -> bool:
        """Return whether a tensor depends on a marked tensor or, in an eager step, is a marked tensor."""
        return self._depends(value, lambda one: one.ref() in self.marks, lambda one: one.ref() in self.whole)

    def is_of_rows(self, value: Any) -> bool:
        """Return whether a tensor of a graph depends on the values in this replica's own rows."""

        def is_argument(tensor: Any) -> bool:
            return not hasattr(tensor, "numpy") and tensor.op.type == "Placeholder" and not sources(tensor)

        return self._depends(value, is_argument, lambda one: one.op.type.startswith(NO_ROWS))

    def _depends(self, value: Any, on: Callable[[Any], bool], ends: Callable[[Any], bool]) -> bool:
        """Return whether `value` depends on a tensor that meets `on`. Ignore the inputs of tensors that meet `ends`."""
        waiting, seen = [value], set[int]()
        while waiting:
            tensor = waiting.pop()
            if not self.tf.is_tensor(tensor) or id(tensor) in seen or not hasattr(tensor, "ref"):
                continue
            seen.add(id(tensor))
            if on(tensor):
                return True
            if not hasattr(tensor, "numpy") and not ends(tensor):
                waiting.extend(sources(tensor))
        return False

    @staticmethod
    def is_unique(indices: Any) -> bool:
        """Return whether the indices come from `tf.unique`, which embedding lookups of sparse rows call."""
        source = passed_on(indices)
        return bool(source.op.type.startswith("Unique") and source.value_index == 0)

    @staticmethod
    def is_sum(assignment: Any) -> bool:
        """Return whether an assignment adds to, or subtracts from, the variable."""
        added = passed_on(assignment.inputs[1]).op.type in ("Add", "AddV2", "AddN", "Sub")
        return added or assignment.type != "AssignVariableOp"

    @staticmethod
    def copy_of(variable: Any) -> Any:
        value = getattr(variable, "value", variable)
        value = variable if callable(value) else value
        return value._get() if hasattr(value, "_get") else value

    def all_reduced(self, value: Any) -> Any:
        """Return the sum of a tensor over all replicas. The sum is differentiable."""
        summed = self.tf.distribute.get_replica_context().all_reduce("SUM", self.tf.cast(value, wider(value.dtype)))
        return self.tf.cast(summed, value.dtype)

    def gathered(self, value: Any) -> Any:
        """Concatenate the rows of all replicas in the order of the replicas. The operation is differentiable."""
        around = [[self.before, self.total - self.before - self.rows], *[[0, 0]] * (value.shape.rank - 1)]
        return self.all_reduced(self.tf.pad(value[: self.rows], around))

    @contextmanager
    def computing_loss(self, predictions: Any) -> Iterator[None]:
        """Within the context, in which a loss is computed, `predictions` is the last item of `in_loss`."""
        self.in_loss.append(predictions)
        try:
            yield
        finally:
            self.in_loss.pop()

    @contextmanager
    def all_rows(self) -> Iterator[None]:
        """Within the context, `has_all_rows` is true: losses are computed from the rows of all replicas."""
        self.has_all_rows = True
        try:
            yield
        finally:
            self.has_all_rows = False


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


def passed_on(tensor: Any) -> Any:
    """Return the tensor from which `tensor` has its values, by following copies, casts and reshapes back."""
    while tensor.op.type in ("Identity", "Cast", "Reshape"):
        tensor = tensor.op.inputs[0]
    return tensor


def wider(dtype: Any) -> str:
    """Return the name of the type in which TensorFlow can add up numbers of this type over workers."""
    return WIDER.get(dtype.name, str(dtype.name))


_steps: dict[int, Step] = {}  # each replica's current step, by the replica's number in this process


def current(tf: Any) -> Step | None:
    """Return the step that this thread's replica computes; None outside a step, or in a cross-replica context."""
    return _steps.get(_replica(tf)) if _steps else None


def _replica(tf: Any) -> int:
    context = tf.distribute.get_replica_context()
    number = getattr(context, "_replica_id", None)
    return number if isinstance(number, int) else -1


@contextmanager
def computing(step: Step) -> Iterator[None]:
    """Within the context, make `current` return `step` for this thread's replica."""
    replica = _replica(step.tf)
    _steps[replica] = step
    try:
        yield
    finally:
        del _steps[replica]


def begin(tf: Any, rows: Any) -> Step:
    """Exchange the replicas' numbers of rows; return this replica's step. `rows` is this replica's number of rows."""
    replica = tf.distribute.get_replica_context()
    place = replica.replica_id_in_sync_group
    own = tf.one_hot(place, replica.num_replicas_in_sync, dtype=tf.int32) * rows
    return Step(tf, replica.all_reduce("SUM", own), place)

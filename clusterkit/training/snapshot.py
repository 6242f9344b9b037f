"""Copies the values that `tf.train.Checkpoint` saves, so that they can be written while the variables change."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import tensorflow as tf

from clusterkit.training import this_task

OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"  # a checkpoint's entry that describes its objects
MOST_FETCHED = 1 << 30  # bytes; a coordinator fetches models up to this size; parameter servers write larger ones


class TensorEntry(NamedTuple):
    """A tensor in a checkpoint: its key in the checkpoint, its slice, and the tensor or an object that reads it."""

    key: str
    slice_spec: str
    value: Any


class NotCopyable(Exception):
    """The state can't be copied or is too large to copy, so TensorFlow's own saver has to write it."""


class Snapshot(NamedTuple):
    """The state at one moment, in this process's memory."""

    entries: list[TensorEntry]

    def write(self, prefix: str) -> None:
        """Write the files of a checkpoint, as `tf.train.Checkpoint.write` does. Raises tf.errors.OpError."""
        with tf.device("CPU:0"):  # the writing thread is outside the strategy's device scopes
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=[entry.key for entry in self.entries],
                shape_and_slices=[entry.slice_spec for entry in self.entries],
                tensors=[entry.value for entry in self.entries],
            )


class Snapshots:
    """Takes snapshots of the objects in a `tf.train.Checkpoint`.

    TensorFlow's `CheckpointOptions(enable_async=True)` (2.21) is not used. With a Keras 3 model and its optimizer, the
    second save raises ValueError, since it creates variables. Objects that can't be copied are skipped with only a
    warning in the log. With parameter servers, TensorFlow traces the saver again for each save, which takes the
    coordinator 0.1 s or more.

    The names of the values come from a private method of the checkpoint's saver. If TensorFlow lacks the method, `take`
    returns None, and the caller saves with the public interface.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._fetch: Any = None
        self._names: list[TensorEntry] = []  # the entries of the tensors that `_fetch` returns, without their values
        self._edges: list[tuple[str, Any]] = []
        self._entries: list[TensorEntry] | None = None

    def take(self) -> Snapshot | None:
        """Copy all values; return None if that is impossible, or would take too much of a coordinator's memory."""
        try:
            return Snapshot(self._read_from_ps() if this_task.has_ps() else self._read_here())
        except NotCopyable:
            return None

    def _read_from_ps(self) -> list[TensorEntry]:
        """Fetch all values in one call, since one call per value takes several times as long."""
        if self._fetch is None:
            variables = {id(child): child for _, child in _edges(self._checkpoint) if isinstance(child, tf.Variable)}
            if sum((each.shape.num_elements() or 0) * each.dtype.size for each in variables.values()) > MOST_FETCHED:
                raise NotCopyable
            self._fetch = self._traced()
        values = self._fetch()
        return [entry._replace(value=_copy(value)) for entry, value in zip(self._names, values, strict=True)]

    def _traced(self) -> Any:
        # Traced only once: TensorFlow sends a traced function to all workers, and waits even for unreachable ones.
        here = f"/job:{this_task.task_type()}/task:{this_task.task_index()}/device:CPU:0"

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]  # tensorflow ships no types
        def fetch() -> list[Any]:
            read = [entry._replace(value=_read(entry)) for entry in _gather(self._checkpoint)]
            found = [entry for entry in read if entry.value is not None]
            with tf.device(here):
                fetched = [tf.identity(entry.value) for entry in found]
            self._names = [entry._replace(value=None) for entry in found]
            return fetched

        return fetch.get_concrete_function()

    def _read_here(self) -> list[TensorEntry]:
        entries, edges = self._entries, _edges(self._checkpoint)
        # Children are compared by identity, since variables define their own ==.
        known = [(name, id(child)) for name, child in self._edges]
        if entries is None or [(name, id(child)) for name, child in edges] != known:
            entries = _gather(self._checkpoint)
            # Entries can be reused if each of them reads the current value, and `_edges` misses no object's variables.
            variables = all(callable(getattr(e.value, "_tensor", None)) or e.key == OBJECT_GRAPH for e in entries)
            variables &= not any(hasattr(type(child), "get_slot_names") for _, child in edges)
            self._entries, self._edges = (entries if variables else None), edges
        values = [(entry, _read(entry)) for entry in entries]
        return [entry._replace(value=_copy(value)) for entry, value in values if value is not None]


def _gather(checkpoint: tf.train.Checkpoint) -> list[TensorEntry]:
    """Return the entries that the checkpoint's saver would write. Raises NotCopyable."""
    try:
        by_object, _, special_savers, _ = checkpoint._saver._gather_serialized_tensors()
    except (AttributeError, TypeError, ValueError):  # an unknown version, or an error that the saver will raise
        raise NotCopyable from None
    if special_savers:
        raise NotCopyable
    entries = []
    for by_key in by_object.values():
        for key, tensor in by_key.items():
            by_slice = tensor if isinstance(tensor, dict) else {"": tensor}
            entries += [TensorEntry(key, slice_spec.strip(), each) for slice_spec, each in by_slice.items()]
    return entries


def _read(entry: TensorEntry) -> Any:
    """Return the entry's tensor; None for a variable that has no value yet."""
    value = entry.value
    return value.tensor if hasattr(value, "slice_spec") else value


def _copy(tensor: Any) -> Any:
    has_no_array = tensor.dtype in (tf.variant, tf.resource)
    return tensor if has_no_array else tensor.numpy()


def _edges(root: Any) -> list[tuple[str, Any]]:
    """Return all objects that `root` tracks, directly or indirectly, with their names and in a fixed order."""
    found: list[tuple[str, Any]] = []
    seen, waiting = {id(root)}, [root]
    for parent in waiting:
        for name, child in tf.train.TrackableView.children(parent).items():
            found.append((name, child))
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)
    return found

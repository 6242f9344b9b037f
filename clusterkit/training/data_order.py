"""The order of the data that Keras 3's `fit` reads, continued after a restart."""

from __future__ import annotations

import sys
from typing import Any


class DataOrder:
    """Counts the iterators that a `fit` makes of its data, and continues the count of an earlier attempt.

    A dataset's shuffle draws from its seed for each new iterator, read or not. Keras makes one or two for an epoch. So
    a resumed `fit` first makes as many as were made before the epoch in which it begins.
    """

    def __init__(self) -> None:
        self._made = 0
        self._due = 0
        self._epochs = 0
        self._data: Any = None  # Keras's iterator over the epochs of this `fit`

    def begin(self) -> None:
        """Count from now on. Call it in `on_train_begin`; `end` stops it."""
        if (kind := _iterators()) is None:
            return
        plain = getattr(kind._get_iterator, "__wrapped__", kind._get_iterator)

        def _get_iterator(data: Any) -> Any:
            if self._data is None:
                self._data = data
                self._catch_up(data, plain(data))
            self._made += data is self._data
            return plain(data)

        _get_iterator.__wrapped__ = plain  # type: ignore[attr-defined]
        kind._get_iterator = _get_iterator

    def resume(self, iterators: int, epochs: int) -> None:
        """Begin after so many iterators, and epochs, of the earlier attempt. Call it in `on_train_begin`."""
        self._due, self._epochs = iterators, epochs

    def before(self, in_epoch: bool) -> int:
        """Return how many iterators were made before that of the epoch that is going on, or of the next one."""
        return self._made - in_epoch

    def end(self) -> None:
        """Stop counting."""
        if (kind := _iterators()) is not None:
            kind._get_iterator = getattr(kind._get_iterator, "__wrapped__", kind._get_iterator)

    def _catch_up(self, data: Any, dataset: Any) -> None:
        permutations = getattr(data.data_adapter, "permutations", None)  # of arrays: see task/patches/order.py
        if permutations is not None and self._epochs:
            permutations.assign_add(self._epochs)
        for _ in range(self._due):
            iter(dataset)
        self._made = self._due


def _iterators() -> Any:
    return getattr(sys.modules.get("keras.src.backend.tensorflow.trainer"), "TFEpochIterator", None)

"""Makes a PyDataset of Keras 3 return its batches in the same order after a restart."""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import numpy as np

MODULE: Final = "keras.src.trainers.data_adapters.py_dataset_adapter"
BEGIN, SHUFFLE, END = "bse"  # on_epoch_begin, Keras's shuffle of the batches, on_epoch_end
INEXACT: Final = (
    "{name} can't resume exactly: random numbers were drawn between the calls of its on_epoch_begin and on_epoch_end, "
    "so they may shuffle differently now. Shuffle with a generator of its own that has a seed, as in "
    "np.random.default_rng(seed)."
)


class BatchOrder:
    """Repeats, when a `fit` is resumed, everything that determined the order of the batches before the interruption.

    Keras shuffles the batches of a PyDataset with Python's `random`, once in each epoch, and a PyDataset may shuffle
    its rows in `on_epoch_begin` or `on_epoch_end`, mostly with NumPy. A new process has made none of these calls, so a
    resumed `fit` would have the order of the first epoch. This class records the calls, and the states of the random
    generators at the beginning of `fit` and of the current epoch. A resumed `fit` repeats the calls.
    """

    def __init__(self) -> None:
        self._adapter: Any = None  # the adapter of the training data, the first one that begins an epoch
        self._calls = ""
        self._calls_before_epoch = 0
        self._start: Any = None
        self._epoch: Any = None
        self._due: Mapping[str, Any] | None = None

    def begin(self) -> None:
        """Record calls from now on, until `end`. Call this in `on_train_begin`."""
        if (module := sys.modules.get(MODULE)) is None:
            return
        self.end()
        plain, kind = module.random, module.PyDatasetAdapter
        begin, end = kind.on_epoch_begin, kind.on_epoch_end

        def shuffle(items: list[Any]) -> None:
            owner = sys._getframe(1).f_locals.get("self")
            self._add(owner, SHUFFLE)
            _generator_of(plain, owner).shuffle(items)

        def on_epoch_begin(adapter: Any) -> None:
            self._begin_epoch(adapter)
            begin(adapter)

        def on_epoch_end(adapter: Any) -> None:
            self._add(adapter, END)
            end(adapter)

        shared = ModuleType("random")
        vars(shared).update({**vars(plain), "shuffle": shuffle, "__wrapped__": plain})
        on_epoch_begin.__wrapped__ = begin  # type: ignore[attr-defined]
        on_epoch_end.__wrapped__ = end  # type: ignore[attr-defined]
        module.random, kind.on_epoch_begin, kind.on_epoch_end = shared, on_epoch_begin, on_epoch_end  # type: ignore[attr-defined]

    def end(self) -> None:
        """Restore Keras. Do nothing if it is as it was."""
        if (module := sys.modules.get(MODULE)) is None:
            return
        owners = (
            (module, "random"),
            (module.PyDatasetAdapter, "on_epoch_begin"),
            (module.PyDatasetAdapter, "on_epoch_end"),
        )
        for owner, name in owners:
            setattr(owner, name, getattr(getattr(owner, name), "__wrapped__", getattr(owner, name)))

    def saved(self, in_epoch: bool) -> dict[str, Any] | None:
        """Return what a resumed `fit` needs, for JSON; None if the data is no PyDataset."""
        if self._adapter is None:
            return None
        calls = self._calls[: self._calls_before_epoch] if in_epoch else self._calls
        return {"calls": calls, "start": self._start, "now": self._epoch if in_epoch else _states()}

    def resume(self, saved: Mapping[str, Any] | None) -> None:
        """Repeat the calls of the earlier attempt when the first epoch begins. Call this in `on_train_begin`."""
        self._due = saved

    def _begin_epoch(self, adapter: Any) -> None:
        if self._adapter is None:
            self._adapter, self._start = adapter, _states()
            if self._due is not None:
                self._repeat(adapter, self._due)
        if adapter is self._adapter:
            self._calls_before_epoch, self._epoch = len(self._calls), _states()
            self._calls += BEGIN

    def _add(self, owner: Any, call: str) -> None:
        if owner is not None and owner in (self._adapter, getattr(self._adapter, "enqueuer", None)):
            self._calls += call

    def _repeat(self, adapter: Any, due: Mapping[str, Any]) -> None:
        data = adapter.py_dataset
        self._calls, self._start = due["calls"], due["start"]
        _restore(due["start"])
        generator = _generator_of(sys.modules[MODULE].random.__wrapped__, adapter.enqueuer or adapter)
        for call in due["calls"]:
            if call == SHUFFLE:
                generator.shuffle(list(range(data.num_batches)))
            else:
                (data.on_epoch_begin if call == BEGIN else data.on_epoch_end)()
        if _states() != due["now"] and _has_calls_of_its_own(data):
            print(INEXACT.format(name=type(data).__name__), flush=True)
        _restore(due["now"])


def _generator_of(module: Any, owner: Any) -> Any:
    """Return what shuffles an adapter's batches: Python's `random`, or the generator of task/patches/order.py."""
    return module.generator_for(owner) if hasattr(module, "generator_for") else random


def _has_calls_of_its_own(data: Any) -> bool:
    base = sys.modules[MODULE].PyDataset
    return any(getattr(type(data), name) is not getattr(base, name) for name in ("on_epoch_begin", "on_epoch_end"))


def _states() -> list[Any]:
    """Return the states of the global generators of Python and NumPy, for JSON."""
    version, numbers, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return [
        [version, _text(np.array(numbers, "uint32")), gauss],
        [_text(np.asarray(keys, "uint32")), int(position), int(has_gauss), float(cached)],
    ]


def _restore(states: Any) -> None:
    (version, numbers, gauss), (keys, *others) = states
    random.setstate((version, tuple(map(int, _array(numbers))), gauss))
    np.random.set_state(("MT19937", _array(keys), *others))


def _text(array: Any) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _array(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), "uint32")

"""The order of data is continued after a restart: as many iterators are made as before it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.training.resumption import DataOrder


class Data:
    """Keras's iterator over the epochs of a fit; each epoch's number of iterators is the version's affair."""

    def __init__(self, permutations: Any = None) -> None:
        self.data_adapter = SimpleNamespace(**({} if permutations is None else {"permutations": permutations}))
        self.made = 0

    def __iter__(self) -> Iterator[int]:
        self.made += 1
        return iter([self.made])

    def _get_iterator(self) -> Data:
        return self


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> type[Data]:
    """A class of a Keras trainer's."""
    kind = type("TFEpochIterator", (Data,), {"_get_iterator": Data._get_iterator})
    trainer = SimpleNamespace(TFEpochIterator=kind)
    monkeypatch.setitem(sys.modules, "keras.src.backend.tensorflow.trainer", trainer)
    return kind


def read(data: Any, epochs: int) -> list[int]:
    """Read epochs as Keras does: with an iterator more at the end of each."""
    seen = []
    for _ in range(epochs):
        seen.append(next(iter(data._get_iterator())))
        iter(data._get_iterator())
    return seen


def test_a_resumed_fit_reads_what_the_unbroken_one_reads(data: type[Data]) -> None:
    """From an epoch's beginning and from its middle."""
    whole, order = data(), DataOrder()
    order.begin()
    assert read(whole, 2) == [1, 3]
    between = order.iterators_before(in_epoch=False)
    assert next(iter(whole._get_iterator())) == 5
    within = order.iterators_before(in_epoch=True)
    order.end()
    for made in (between, within):
        resumed, later = data(), DataOrder()
        later.begin()
        later.resume(made, epochs=2)
        assert read(resumed, 1) == [5]
        later.end()


def test_only_the_training_data_is_counted(data: type[Data]) -> None:
    """A validation reads data of its own, after that of the training."""
    training, validation, order = data(), data(), DataOrder()
    order.begin()
    order.resume(4, epochs=2)
    assert read(training, 1) == [5]
    assert read(validation, 3) == [1, 3, 5]
    assert order.iterators_before(in_epoch=False) == 6
    order.end()


def test_the_permutations_of_arrays_are_counted_by_epochs(data: type[Data]) -> None:
    """The patch of unseeded arrays draws one in each epoch."""
    advanced: list[int] = []
    arrays, order = data(SimpleNamespace(assign_add=advanced.append)), DataOrder()
    order.begin()
    order.resume(4, epochs=2)
    read(arrays, 2)
    order.end()
    assert advanced == [2]


def test_keras_is_as_it_was_afterwards(data: type[Data]) -> None:
    """Also if a fit before this one was broken off."""
    plain = data._get_iterator
    DataOrder().begin()
    again = DataOrder()
    again.begin()
    assert data._get_iterator is not plain
    again.end()
    assert data._get_iterator is plain


def test_a_keras_without_such_iterators_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras 2, or none."""
    monkeypatch.delitem(sys.modules, "keras.src.backend.tensorflow.trainer", raising=False)
    order = DataOrder()
    order.begin()
    assert order.iterators_before(in_epoch=False) == 0
    order.end()


class Handler:
    """Keras 2's: it makes an iterator first, and then another one for each epoch if the data asks for it."""

    def __init__(self, data: Data, first: int = 0, epochs: int = 4, *, recreates: bool = True) -> None:
        self._dataset, self._adapter = data, data.data_adapter
        self._adapter.should_recreate_iterator = lambda: recreates
        self._epochs = range(first, epochs)

    def enumerate_epochs(self) -> Iterator[tuple[int, int]]:
        """Yield what is read in each epoch."""
        iterator = iter(self._dataset)
        for epoch in self._epochs:
            if self._adapter.should_recreate_iterator():
                iterator = iter(self._dataset)
            yield epoch, next(iterator, 0)


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> type[Handler]:
    """A class of Keras 2."""
    kind = type("DataHandler", (Handler,), {"enumerate_epochs": Handler.enumerate_epochs})
    monkeypatch.setitem(sys.modules, "tf_keras.src.engine.data_adapter", SimpleNamespace(DataHandler=kind))
    return kind


def test_a_resumed_fit_of_keras_2_reads_what_the_unbroken_one_reads(handler: type[Handler]) -> None:
    """From an epoch's beginning and from its middle; the data of a validation counts by itself."""
    order = DataOrder()
    order.begin()
    epochs = handler(Data()).enumerate_epochs()
    assert [next(epochs), next(epochs)] == [(0, 2), (1, 3)]
    assert list(handler(Data(), epochs=1).enumerate_epochs()) == [(0, 2)]
    between = order.iterators_before(in_epoch=False)
    assert next(epochs) == (2, 4)
    within = order.iterators_before(in_epoch=True)
    order.end()
    for made in (between, within):
        later = DataOrder()
        later.begin()
        later.resume(made, epochs=2)
        assert list(handler(Data(), first=2).enumerate_epochs()) == [(2, 4), (3, 5)]
        assert later.iterators_before(in_epoch=False) == 4
        later.end()


def test_arrays_of_keras_2_have_one_iterator(handler: type[Handler]) -> None:
    """Their order is that of permutations, of which each epoch draws one."""
    advanced: list[int] = []
    order = DataOrder()
    order.begin()
    order.resume(0, epochs=2)
    data = Data(SimpleNamespace(assign_add=advanced.append))
    list(handler(data, first=2, recreates=False).enumerate_epochs())
    assert (advanced, data.made, order.iterators_before(in_epoch=False)) == ([2], 1, 0)
    order.end()
    assert handler.enumerate_epochs is Handler.enumerate_epochs

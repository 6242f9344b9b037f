"""Makes a dataset again with other seeds, and with a count of its iterators that begins anew.

The seeds of a dataset are fixed when TensorFlow creates it, and all its iterators share a counter, so a worker that
looks at the first batch is one epoch ahead of the others. A dataset that is made again has a counter of its own.

Only the transformations between the shuffles and the end of the dataset are made again: the data below them, and the
functions of `map` and others, which TensorFlow has already traced, are used as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

RECIPE = "_clusterkit_recipe"  # an attribute of a dataset: the arguments of its constructor
PLACE = "_clusterkit_place"  # an attribute of a dataset whose program gave no seed: the line that created the dataset
AGREE = "_clusterkit_agree"  # an attribute of a dataset of Keras: what is called when the dataset is distributed
_seeds: list[Callable[[], int]] = []  # returns the seed of the dataset that is being made again, if there is one


def keep_arguments(module: Any) -> None:
    """Patch datasets to keep the arguments of their constructors, but not the arrays of a dataset's source."""
    kind, sources = module.DatasetV2, getattr(module, "DatasetSource", ())

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        self = object.__new__(cls)
        if not (sources and issubclass(cls, sources)) or "Random" in cls.__name__:
            vars(self)[RECIPE] = args, kwargs
        return self

    kind.__new__ = __new__


def seed_of_remade() -> int | None:
    """Return the seed for the dataset that is being made again; None if no dataset is."""
    return _seeds[-1]() if _seeds else None


def inputs_of(dataset: Any) -> list[Any]:
    inputs = getattr(dataset, "_inputs", None)
    return list(inputs()) if callable(inputs) else []


def is_unseeded(dataset: Any) -> bool:
    """Return whether the dataset or one of its inputs was created without a seed."""
    return PLACE in vars(dataset) or any(map(is_unseeded, inputs_of(dataset)))


def remade(dataset: Any, seed: Callable[[str], int]) -> Any:
    """Return the dataset made again. `seed` returns the seed for a line of the program that gave none.

    A dataset without unseeded inputs is returned as it is, and so is one of a kind that can't be made again.
    """
    if not is_unseeded(dataset):
        return dataset
    try:
        return _Remaker(seed).make(dataset)
    except Exception:  # a dataset class of the program's own, whose constructor needs something else
        return dataset


class _Remaker:
    """Makes each dataset once, even if it is the input of several others."""

    def __init__(self, seed: Callable[[str], int]) -> None:
        self._seed = seed
        self._made: dict[int, Any] = {}

    def make(self, dataset: Any) -> Any:
        if not is_unseeded(dataset):
            return dataset
        if id(dataset) not in self._made:
            args, kwargs = vars(dataset)[RECIPE]
            args, kwargs = self._replaced(args), self._replaced(kwargs)
            place = vars(dataset).get(PLACE)
            _seeds.append(lambda: self._seed(place or "unknown"))
            try:
                with _with_functions_of(dataset):
                    self._made[id(dataset)] = made = type(dataset)(*args, **kwargs)
            finally:
                _seeds.pop()
            if place is not None:
                vars(made)[PLACE] = place
        return self._made[id(dataset)]

    def _replaced(self, value: Any) -> Any:
        """Return a constructor's arguments with all datasets in them made again."""
        if hasattr(value, "_variant_tensor"):
            return self.make(value)
        if type(value) in (list, tuple):
            return type(value)(map(self._replaced, value))
        if type(value) is dict:
            return {name: self._replaced(each) for name, each in value.items()}
        return value


@contextmanager
def _with_functions_of(dataset: Any) -> Iterator[None]:
    """Use the functions that TensorFlow traced for the dataset, in the order in which its constructor made them."""
    module: Any = sys.modules.get("tensorflow.python.data.ops.structured_function")
    if module is None:
        yield
        return
    plain = module.StructuredFunctionWrapper
    traced = [value for value in vars(dataset).values() if isinstance(value, plain)]

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return traced.pop(0) if traced else plain(*args, **kwargs)

    module.StructuredFunctionWrapper = wrapper
    try:
        yield
    finally:
        module.StructuredFunctionWrapper = plain


def agree(module: Any, load: Any) -> None:
    """Patch `input_lib`: distributed datasets get seeds and a count of iterators on which all workers agree."""
    order = load("task/patches/order")
    order.shuffle_differently(module, load)
    for name, place in (("DistributedDataset", 0), ("DistributedDatasetsFromFunction", 1)):
        _agree(getattr(module, name), place, order.distributed_seed)


def _agree(kind: Any, place: int, seed: Callable[[str], int]) -> None:
    """Patch a constructor, whose argument number `place` after the strategy is a dataset or a function of one."""
    plain, name = kind.__init__, ("dataset", "dataset_fn")[place]

    @wraps(plain)
    def __init__(self: Any, input_workers: Any, strategy: Any, *args: Any, **kwargs: Any) -> None:
        # A strategy of this process alone has nobody to agree with.
        if type(strategy.extended).__name__.startswith("CollectiveAllReduce"):
            if len(args) > place:
                args = (*args[:place], agreeing(args[place], seed), *args[place + 1 :])
            elif kwargs.get(name) is not None:
                kwargs[name] = agreeing(kwargs[name], seed)
        plain(self, input_workers, strategy, *args, **kwargs)

    kind.__init__ = __init__


def agreeing(value: Any, seed: Callable[[str], int]) -> Any:
    """Return a dataset with agreed seeds, or a function that returns such a dataset."""
    if not hasattr(value, "_variant_tensor"):
        return (lambda *args: agreed(value(*args), seed)) if callable(value) else value
    return agreed(value, seed)


def agreed(dataset: Any, seed: Callable[[str], int]) -> Any:
    """Return the dataset made again with the seeds for the next distributed dataset."""
    if not hasattr(dataset, "_variant_tensor"):
        return dataset
    for each in _chain(dataset):
        if (call := vars(each).get(AGREE)) is not None:
            call()
    return remade(dataset, seed)


def _chain(dataset: Any) -> list[Any]:
    found = [dataset]
    for each in found:
        found.extend(inputs_of(each))
    return found

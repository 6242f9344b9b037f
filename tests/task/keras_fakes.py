"""A stand-in for Keras's trainer, with its defects or without, and a strategy of several workers."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

FAULTY_AXIS, MENDED_AXIS = 0, None


class MultiWorker:
    """A strategy whose other worker has twice this one's values."""

    def __init__(self, chief: bool = True) -> None:
        self.extended = SimpleNamespace(_in_multi_worker_mode=lambda: True, should_checkpoint=chief)

    def reduce(self, how: str, value: Any, axis: object) -> Any:
        assert axis is None, "a number has no rows"
        return {"MEAN": 1.5, "SUM": 3.0}[how] * value

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        return (value.mine,)

    scope = nullcontext


class Distributed:
    """A batch, of which this worker has a part."""

    mine = "my part"


def keras(faulty: bool) -> Any:
    """A module like Keras's trainer, with both defects or none. Each item of an epoch ends with the batches."""

    class Trainer:
        built: Any = None

        def __init__(self, strategy: Any) -> None:
            self._distribute_strategy = strategy

        @property
        def distribute_strategy(self) -> Any:
            return self._distribute_strategy

        def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
            if iterator is not None:
                strategy, (*_, batches) = self.distribute_strategy, next(iter(iterator))
                batch = next(batches)
                data_batch = strategy.reduce("MEAN", batch, axis=None) if faulty else batch.mine
            self._symbolic_build(data_batch=data_batch)

        def _symbolic_build(self, data_batch: Any) -> None:
            self.built = data_batch

        def predict(self, x: Any) -> Any:
            return x

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        return strategy.reduce("MEAN", values, axis=FAULTY_AXIS if faulty else MENDED_AXIS)

    kinds = SimpleNamespace(MultiWorkerMirroredStrategy=MultiWorker, DistributedValues=Distributed)
    tf = SimpleNamespace(distribute=kinds, experimental=SimpleNamespace(Optional=ModuleType), OptionalSpec=ModuleType)
    tree = SimpleNamespace(map_structure=lambda function, value: function(value))
    return SimpleNamespace(TensorFlowTrainer=Trainer, reduce_per_replica=reduce_per_replica, tf=tf, tree=tree)

"""Keras 3 on several workers: `fit`, `evaluate`, `predict` and their kin, where they fail or go wrong with them.

Loaded by path: standard library only. What it needs of TensorFlow and Keras it takes from the module that is mended.
Nothing is touched before a model asks for its strategy, which none but these methods do, and it is the multi-worker
one. Two places of Keras then fail, and are mended only if they still do: the model is built from a batch that was
reduced over the workers, and each step's metrics, which are single numbers, are reduced over their rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from types import ModuleType, SimpleNamespace
from typing import Any

Load = Callable[[str], ModuleType]


class Asked(Exception):
    """A probe was asked for what only the faulty code asks for."""


def watch(trainer: Any, load: Load) -> None:
    """Mend when a model first asks for its strategy, and it is the multi-worker one."""
    model = trainer.TensorFlowTrainer
    plain = model.distribute_strategy

    def distribute_strategy(self: Any) -> Any:
        strategy = plain.fget(self)
        if is_multi_worker(trainer.tf, strategy):
            load("task/patches/refusals").refuse_old_keras(sys._getframe(1))
            model.distribute_strategy = plain
            mend(trainer, strategy, load)
        return strategy

    model.distribute_strategy = property(unconverted(distribute_strategy))


def is_multi_worker(tf: Any, strategy: Any) -> bool:
    """Whether other processes have replicas of the model, too."""
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return bool(several and strategy.extended._in_multi_worker_mode())


def mend(trainer: Any, strategy: Any, load: Load) -> None:
    """Put right what this version does wrong, and say so once for the job."""
    due = [fix for fault, fix in FAULTS if seen(fault, trainer)] + load("task/patches/keras_rows").due(trainer, load)
    for fix in due:
        fix(trainer)
    if due and strategy.extended.should_checkpoint:  # that of the chief, or of worker:0
        version = getattr(sys.modules.get("keras"), "__version__", "3")
        what = f"fit, evaluate and predict of Keras {version}, which go wrong on several workers"
        print(f"clusterkit: mended {what}; --no-keras-fix leaves them as they are.", file=sys.stderr, flush=True)


def seen(fault: Callable[[Any], bool], trainer: Any) -> bool:
    """Whether the fault is there; code that can't be asked is not the code that has it."""
    try:
        return fault(trainer)
    except Exception:
        return False


def builds_from_a_reduced_batch(trainer: Any) -> bool:
    """Ask with a batch of which this worker has a part."""

    class Part(trainer.tf.distribute.DistributedValues):  # type: ignore[misc]
        def __init__(self) -> None: ...

    def reduce(*_: object, **__: object) -> None:
        raise Asked

    strategy = SimpleNamespace(reduce=reduce, scope=nullcontext)
    model = SimpleNamespace(
        _distribute_strategy=strategy, distribute_strategy=strategy, _symbolic_build=lambda **_: None
    )
    for numbers in (0, 1), (0,):  # what comes before the batches: since Keras 3.11 the last step's number too
        try:
            trainer.TensorFlowTrainer._maybe_symbolic_build(model, iterator=[(*numbers, iter([Part()]))])
        except Asked:
            return True
        except ValueError:
            continue
    return False


def build_from_a_part(trainer: Any) -> None:
    """Build the model from what this worker has of a batch."""
    model = trainer.TensorFlowTrainer
    plain = model._maybe_symbolic_build

    @wraps(plain)
    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self._distribute_strategy
        if iterator is not None and strategy is not None and is_multi_worker(trainer.tf, strategy):
            data_batch, iterator = part_of(trainer, strategy, iterator), None
        plain(self, iterator=iterator, data_batch=data_batch)

    model._maybe_symbolic_build = unconverted(_maybe_symbolic_build)


def part_of(trainer: Any, strategy: Any, iterator: Any) -> Any:
    """What this worker has of a batch: what the data says that it gives, or else its first batch."""
    tf = trainer.tf

    def local(value: Any) -> Any:
        if isinstance(value, tf.distribute.DistributedValues):
            value = strategy.experimental_local_results(value)[0]
        return None if isinstance(value, tf.experimental.Optional | tf.OptionalSpec) else value

    def local_spec(spec: Any) -> Any:
        return local(getattr(spec, "_value_specs", (spec,))[0])

    try:
        # A batch that is taken here would be missing in an iterator that can't be put back to its beginning, and
        # data that is shuffled anew for each epoch would come in another order than in a single process.
        specs = trainer.tree.map_structure(local_spec, iterator._distributed_dataset.element_spec)
        if all(spec is None or spec.shape.rank is not None for spec in trainer.tree.flatten(specs)):
            return specs
    except (AttributeError, NotImplementedError):
        pass
    *_, batches = next(iter(iterator))
    return trainer.tree.map_structure(local, next(batches))


def reduces_numbers_over_rows(trainer: Any) -> bool:
    """Ask for the mean of a number that each worker has."""
    axes = []

    class Probe(trainer.tf.distribute.MultiWorkerMirroredStrategy):  # type: ignore[misc]
        extended = SimpleNamespace(_in_multi_worker_mode=lambda: True)

        def __init__(self) -> None: ...

        def reduce(self, reduce_op: object, value: object, axis: object) -> object:
            axes.append(axis)
            return value

    trainer.reduce_per_replica(1.0, Probe(), "mean")
    return axes == [0]


def reduce_numbers(trainer: Any) -> None:
    """Reduce what a step returns as it is, over the workers alone."""
    plain = trainer.reduce_per_replica

    @wraps(plain)
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in ("auto", "mean", "sum") or not is_multi_worker(trainer.tf, strategy):
            return plain(values, strategy, reduction)
        how = "SUM" if reduction == "sum" else "MEAN"
        return trainer.tree.map_structure(lambda value: strategy.reduce(how, value, axis=None), values)

    trainer.reduce_per_replica = unconverted(reduce_per_replica)


def unconverted(function: Any) -> Any:
    """Have autograph call a function as it is, as it calls Keras's own."""
    function.autograph_info__ = None
    return function


FAULTS = (
    (builds_from_a_reduced_batch, build_from_a_part),
    (reduces_numbers_over_rows, reduce_numbers),
)

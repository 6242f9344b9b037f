"""Patches `fit`, `evaluate`, `predict` and related methods of Keras 3, which fail or are wrong on several workers.

The methods read the property `model.distribute_strategy`. Most patches are applied when this property first returns a
MultiWorkerMirroredStrategy. Two defects are patched only if the installed Keras has them: Keras builds a model from a
batch that has been reduced over the workers, and reduces a step's metrics over rows, although metrics are scalars.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

Load = Callable[[str], ModuleType]
REPAIRS = (
    "rows",
    "divided",
    "metrics",
    "gradients",
    "alone",
    "draws",
    "state",
)  # the files beside this one that patch every Keras 3


class ProbeCalled(Exception):
    """Raised when Keras calls `reduce` of a stand-in for a strategy, which only a defective version of Keras does."""


def watch(trainer: Any, load: Load) -> None:
    """Patch the property `distribute_strategy` to apply the patches when it first returns a multi-worker strategy."""
    model = trainer.TensorFlowTrainer
    plain = model.distribute_strategy

    def distribute_strategy(self: Any) -> Any:
        strategy = plain.fget(self)
        if is_multi_worker(trainer.tf, strategy):
            load("task/patches/refusals").refuse_old_keras(sys._getframe(1))
            model.distribute_strategy = plain
            patch(trainer, strategy, load)
        return strategy

    # AutoGraph does not convert this function, just as it does not convert Keras's own functions.
    distribute_strategy.autograph_info__ = None  # type: ignore[attr-defined]
    model.distribute_strategy = property(distribute_strategy)
    predict_in_order(trainer, load)


def predict_in_order(trainer: Any, load: Load) -> None:
    """Patch `predict` to shard datasets by elements, since sharding by files would change the order of the rows."""
    model, tf = trainer.TensorFlowTrainer, trainer.tf
    plain = model.predict

    def predict(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, tf.data.Dataset) and is_multi_worker(tf, self.distribute_strategy):
            options = tf.data.Options()
            options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
            x = x.with_options(options)
        return plain(self, x, *args, **kwargs)

    load("task/patches/hook").replace(model, "predict", predict)


def disable_autotuner(module: Any, load: Load) -> None:
    """Patch the datasets that Keras creates from arrays to be iterated without TensorFlow's autotuner.

    When an iterator is deleted, the tuner's thread often misses the request to end (TensorFlow 2.21). It then sleeps
    about as long as the iterator has existed, and a worker that has finished training seems to hang.
    """
    kind = module.ArrayDataAdapter
    plain = kind.get_tf_dataset

    def get_tf_dataset(self: Any) -> Any:
        options = sys.modules["tensorflow"].data.Options()
        options.autotune.enabled = False
        return plain(self).with_options(options)

    load("task/patches/hook").replace(kind, "get_tf_dataset", get_tf_dataset)


def is_multi_worker(tf: Any, strategy: Any) -> bool:
    """Return whether the strategy is a MultiWorkerMirroredStrategy that spans several processes."""
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return bool(several and strategy.extended._in_multi_worker_mode())


def patch(trainer: Any, strategy: Any, load: Load) -> None:
    """Apply the patches to Keras, and print a notice in one task; exit if this version's internals are unknown."""
    due = [fix for has_defect, fix in DEFECTS if holds(has_defect, trainer)]
    try:
        for name in REPAIRS:
            due += load(f"task/patches/keras/{name}").fixes(trainer)
    except (AssertionError, AttributeError, KeyError) as error:
        load("task/patches/refusals").refuse_unknown_keras(sys._getframe(2), error)
    for fix in due:
        fix(trainer, load)
    load("task/patches/told").effect("keras-fit", load)
    # True only in the chief or, in a job without a chief, in worker:0
    _leading[:] = [True] if strategy.extended.should_checkpoint else []
    if due and _leading:
        version = getattr(sys.modules.get("keras"), "__version__", "3")
        what = f"fit, evaluate and predict of Keras {version}, which fail or are wrong on several workers"
        print(f"clusterkit: patched {what}; --no-patches leaves them as they are.", file=sys.stderr, flush=True)


_said: set[str] = set()
_leading: list[bool] = []  # not empty in the worker that prints notices


def say_once(text: str) -> None:
    """Print a notice only once, and only in the chief or, in a job without a chief, in worker:0."""
    if text not in _said and _leading:
        _said.add(text)
        print(f"clusterkit: {text}", file=sys.stderr, flush=True)


def holds(has_defect: Callable[[Any], bool], trainer: Any) -> bool:
    """Return whether Keras has the defect; False if `has_defect` raises because Keras lacks the code to check."""
    try:
        return has_defect(trainer)
    except Exception:
        return False


def builds_from_a_reduced_batch(trainer: Any) -> bool:
    class ReplicaPart(trainer.tf.distribute.DistributedValues):  # type: ignore[misc]
        def __init__(self) -> None: ...

    def reduce(*_: object, **__: object) -> None:
        raise ProbeCalled

    strategy = SimpleNamespace(reduce=reduce, scope=nullcontext)
    model = SimpleNamespace(
        _distribute_strategy=strategy, distribute_strategy=strategy, _symbolic_build=lambda **_: None
    )
    for numbers in (0, 1), (0,):  # since Keras 3.11, two step numbers precede the batches; earlier, one did
        try:
            trainer.TensorFlowTrainer._maybe_symbolic_build(model, iterator=[(*numbers, iter([ReplicaPart()]))])
        except ProbeCalled:
            return True
        except ValueError:
            continue
    return False


def build_from_a_part(trainer: Any, load: Load) -> None:
    """Patch Keras to build a model from this worker's part of a batch, not from a reduction over all workers."""
    model = trainer.TensorFlowTrainer
    plain = model._maybe_symbolic_build

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self._distribute_strategy
        if iterator is not None and strategy is not None and is_multi_worker(trainer.tf, strategy):
            data_batch, iterator = part_of(trainer, strategy, iterator), None
            try:
                plain(self, data_batch=data_batch)
            except (
                Exception
            ):  # Keras calls the model only under a strategy; a model with its own step need not allow it
                return
        else:
            plain(self, iterator=iterator, data_batch=data_batch)

    load("task/patches/hook").replace(model, "_maybe_symbolic_build", _maybe_symbolic_build)


def part_of(trainer: Any, strategy: Any, iterator: Any) -> Any:
    """Return the specs of this worker's part of a batch or, if these are incomplete, its part of the first batch."""
    tf = trainer.tf

    def local(value: Any) -> Any:
        if isinstance(value, tf.distribute.DistributedValues):
            value = strategy.experimental_local_results(value)[0]
        return None if isinstance(value, tf.experimental.Optional | tf.OptionalSpec) else value

    def local_spec(spec: Any) -> Any:
        return local(getattr(spec, "_value_specs", (spec,))[0])

    try:
        # Specs are preferred because a batch that is read here is lost, unless the iterator can be restarted.
        # A restart would reshuffle the data, so its order would differ from that in a single process.
        specs = trainer.tree.map_structure(local_spec, iterator._distributed_dataset.element_spec)
        if all(spec is None or spec.shape.rank is not None for spec in trainer.tree.flatten(specs)):
            return specs
    except (AttributeError, NotImplementedError):
        pass
    *_, batches = next(iter(iterator))
    return trainer.tree.map_structure(local, next(batches))


def reduces_scalars_over_rows(trainer: Any) -> bool:
    """Return whether Keras reduces the workers' scalars along axis 0, although scalars have no axis."""
    axes = []

    class Probe(trainer.tf.distribute.MultiWorkerMirroredStrategy):  # type: ignore[misc]
        extended = SimpleNamespace(_in_multi_worker_mode=lambda: True)

        def __init__(self) -> None: ...

        def reduce(self, reduce_op: object, value: object, axis: object) -> object:
            axes.append(axis)
            return value

    trainer.reduce_per_replica(1.0, Probe(), "mean")
    return axes == [0]


def keep_scalars(trainer: Any, load: Load) -> None:
    """Patch Keras to take a step's results from one replica, since they are equal in all replicas."""
    plain = trainer.reduce_per_replica

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction == "concat" or not is_multi_worker(trainer.tf, strategy):
            return plain(values, strategy, reduction)
        return trainer.tree.map_structure(lambda value: strategy.experimental_local_results(value)[0], values)

    load("task/patches/hook").replace(trainer, "reduce_per_replica", reduce_per_replica)


DEFECTS = (
    (builds_from_a_reduced_batch, build_from_a_part),
    (reduces_scalars_over_rows, keep_scalars),
)

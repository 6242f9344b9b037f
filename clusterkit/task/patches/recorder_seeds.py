"""Seeds everything that is random in a recorded task, so that two runs of a program compute the same.

Loaded by path: standard library only. Each library is seeded when it is imported, before the program can use it: a
program's own seeds come later and win. All tasks have the same seed, as the replicas of a single process have.
"""

from __future__ import annotations

import itertools
import json
import os
from contextlib import suppress
from types import SimpleNamespace
from typing import Any


def seed(module: Any, load: Any) -> None:
    """Seed Python's `random`, from which Keras takes the seeds of its layers, or NumPy's generator."""
    module.seed(load("task/patches/order").recorded_seed())


def seed_tensorflow(module: Any, load: Any) -> None:
    """Seed TensorFlow, and have its operations give the same result each time, except with parameter servers.

    The order of unseeded data still follows from order.py, which gives each epoch another one.
    """
    module.random.set_seed(load("task/patches/order").recorded_seed())
    if not has_servers(os.environ.get("TF_CONFIG", "{}")):  # whose workers are not in step, and would only be slower
        module.config.experimental.enable_op_determinism()


def leave_out_dropout(module: Any, load: Any) -> None:
    """Have dropout keep everything, if that is asked for: each worker of several drops something else than one does."""
    if "no-dropout" in os.environ.get("CLUSTERKIT_RECORD_STEPS", "").split(","):
        module.dropout = lambda inputs, *args, **kwargs: inputs


def has_servers(tf_config: str) -> bool:
    """Whether the cluster has parameter servers."""
    try:
        return bool(json.loads(tf_config)["cluster"]["ps"])
    except (ValueError, LookupError, TypeError):
        return False


def seed_generators(module: Any, load: Any) -> None:
    """Seed the generators that a program makes without a seed, which deterministic TensorFlow refuses."""
    kind, numbers = module.Generator, itertools.count(load("task/patches/order").recorded_seed())

    def from_non_deterministic_state(cls: Any, alg: Any = None) -> Any:
        return cls.from_seed(next(numbers), alg)

    kind.from_non_deterministic_state = classmethod(from_non_deterministic_state)
    module.config = SimpleNamespace(is_op_determinism_enabled=lambda: False)  # asked by `get_global_generator`


def build_from_specs(trainer: Any, load: Any) -> None:
    """Patch Keras 3 on one worker to build a model without taking a batch for it, as keras_fit.py does on several.

    Data that is shuffled anew for each iterator would have the order of its second epoch in the first one.
    """
    fit, model = load("task/patches/keras_fit"), trainer.TensorFlowTrainer
    plain = model._maybe_symbolic_build

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None and self._distribute_strategy is not None:
            with suppress(Exception):  # the model can't be built in this way
                plain(self, data_batch=fit.part_of(trainer, self._distribute_strategy, iterator))
                return
        plain(self, iterator=iterator, data_batch=data_batch)

    if "TF_CONFIG" not in os.environ:
        load("task/patches/hook").replace(model, "_maybe_symbolic_build", _maybe_symbolic_build)

"""Seeds all random generators in a recorded task, so that two runs of a program compute the same results.

Each library is seeded when it is imported; the program's own seeds are set later and take precedence. TensorFlow and
the layers of Keras have the same seed in all tasks, since the workers of a gang begin with the first worker's values.
NumPy and Python's `random` have a different seed in each worker of a gang, as without an exam: equal seeds would hide
that workers shuffle in different orders. Importing TensorFlow or Keras draws random numbers, which a fork does not
repeat, so the generators' states are restored after these imports.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from typing import Any

# Maps each module with a random generator to its functions that get and set the generator's state.
STATES = {"random": ("getstate", "setstate"), "numpy.random": ("get_state", "set_state")}
LIBRARIES = ("tensorflow", "keras", "tf_keras")


class StateKeeper:
    """A meta path finder that finds no modules, but stores the states of random generators when an import begins."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Any]] = {}  # maps each imported library to the states, by generator module

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in LIBRARIES:
            modules = {module: sys.modules[module] for module in STATES if module in sys.modules}
            self.states[name] = {module: getattr(modules[module], STATES[module][0])() for module in modules}


keeper = StateKeeper()


def keep_states(module: Any, load: object) -> None:
    """Install the finder `keeper`, which stores the generators' states before each import of a library."""
    module.meta_path.insert(0, keeper)


def restore_states(module: Any, load: Any) -> None:
    """Restore the states that the random generators had before this library was imported."""
    states = keeper.states.pop(module.__name__, {})
    for name, (_, setter) in STATES.items():
        if name in states:
            getattr(sys.modules[name], setter)(states[name])
        elif name in sys.modules:
            seed(sys.modules[name], load)


def seed(module: Any, load: Any) -> None:
    """Seed Python's `random` or NumPy's generator, with a different seed in each worker of a gang."""
    order = load("task/patches/order")
    worker = 0
    with suppress(ValueError, LookupError, TypeError, AttributeError):  # if the program has changed TF_CONFIG
        worker = 0 if has_servers(os.environ.get("TF_CONFIG", "{}")) else order.worker_index()
    module.seed(order.recorded_seed() + worker)


def share_layer_seeds(module: Any, load: Any) -> None:
    """Patch Keras 3 or 2 to draw the seeds of layers from a generator that has the same seed in all workers."""
    order = load("task/patches/order")
    drawn = random.Random(order.recorded_seed())

    def randint(first: int, last: int) -> int:
        is_seeded = "tensorflow.python.eager.context" in sys.modules and order.is_seeded()
        return (random if is_seeded else drawn).randint(first, last)

    shared = ModuleType("random")
    vars(shared).update({**vars(random), "randint": randint})
    setattr(module, "python_random" if hasattr(module, "python_random") else "random", shared)


def seed_tensorflow(module: Any, load: Any) -> None:
    """Seed TensorFlow and, except with parameter servers, make its operations deterministic.

    The order of unseeded data still comes from order.py, which shuffles each epoch differently.
    """
    restore_states(module, load)
    module.random.set_seed(load("task/patches/order").recorded_seed())
    # Workers with parameter servers are asynchronous, so deterministic operations would only make them slower.
    if not has_servers(os.environ.get("TF_CONFIG", "{}")):
        module.config.experimental.enable_op_determinism()


def has_servers(tf_config: str) -> bool:
    try:
        return bool(json.loads(tf_config)["cluster"]["ps"])
    except (ValueError, LookupError, TypeError):
        return False


def seed_generators(module: Any, load: Any) -> None:
    """Seed generators that the program creates without a seed, which TensorFlow rejects if determinism is enabled."""
    kind, numbers = module.Generator, itertools.count(load("task/patches/order").recorded_seed())

    def from_non_deterministic_state(cls: Any, alg: Any = None) -> Any:
        return cls.from_seed(next(numbers), alg)

    kind.from_non_deterministic_state = classmethod(from_non_deterministic_state)
    module.config = SimpleNamespace(is_op_determinism_enabled=lambda: False)  # get_global_generator checks this


def build_from_specs(trainer: Any, load: Any) -> None:
    """Patch Keras 3 on one worker to build a model from the specs of its data, without reading a batch.

    To read a batch, Keras creates an iterator. Each new iterator reshuffles the data, so training would not see
    the first order.
    """
    fit, model = load("task/patches/keras/fit"), trainer.TensorFlowTrainer
    plain = model._maybe_symbolic_build

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None and self._distribute_strategy is not None:
            with suppress(Exception):  # the model can't be built in this way
                plain(self, data_batch=fit.part_of(trainer, self._distribute_strategy, iterator))
                return
        plain(self, iterator=iterator, data_batch=data_batch)

    if "TF_CONFIG" not in os.environ:
        load("task/patches/hook").replace(model, "_maybe_symbolic_build", _maybe_symbolic_build)

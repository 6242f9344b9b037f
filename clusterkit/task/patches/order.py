"""Shuffles sharded data in the same order in all workers of a gang if the program gives no seed.

With sharding, every worker reads the whole dataset and keeps every n-th batch or row, so workers that shuffle
differently would skip some rows and train twice on others. Data that is not sharded keeps a different order in each
worker. The seeds are derived from the run's seed, so a later attempt shuffles in the same order: the first iterator of
a dataset has the order of the first epoch, and so on.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections import Counter
from functools import wraps
from types import ModuleType
from typing import Any

SEED = "CLUSTERKIT_SEED"  # an environment variable: the seed of the run that began the training, kept when it continues
_places: Counter[str] = Counter()  # maps a line of the program to the number of seeds that the line has requested


def agreed_seed(place: str) -> int:
    """Return a seed for a line of the program. All workers get the same seed for the line's n-th request.

    The seed depends on CLUSTERKIT_SEED or, if that is unset, on the cluster spec.
    """
    _places[place] += 1
    text = os.environ.get(SEED) or json.dumps(json.loads(os.environ["TF_CONFIG"])["cluster"], sort_keys=True)
    digest = hashlib.sha256(f"{text} {place} {_places[place]}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def recorded_seed() -> int | None:
    """Return the seed that clusterkit gives TensorFlow in a task that is recorded for an exam; None in other tasks."""
    text = os.environ.get(SEED, "") if "CLUSTERKIT_RECORD" in os.environ else None
    return None if text is None else int.from_bytes(text.encode()) % (2**31 - 1)


def is_seeded() -> bool:
    """Return whether the program has set TensorFlow's seed, so that all workers shuffle in the same order."""
    context = sys.modules["tensorflow.python.eager.context"]
    if context.executing_eagerly():
        return context.global_seed() not in (None, recorded_seed())
    graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
    return graph.seed not in (None, recorded_seed())


def seed_datasets(module: Any, load: Any) -> None:
    """Patch `get_seed` of tf.data: an operation without a seed gets a seed that is the same in all workers."""
    plain = module.get_seed

    @wraps(plain)
    def get_seed(seed: Any) -> Any:
        if seed is None and not is_seeded():
            _, place = load("task/patches/refusals").library_call(sys._getframe(1))
            seed = agreed_seed(place)
            load("task/patches/told").effect("order", load)
        return plain(seed)

    module.get_seed = get_seed


def shuffle_differently(module: Any, load: Any) -> None:
    """Patch datasets: each worker iterates over a dataset that is not sharded in a different order."""
    for name in ("DatasetV2", "DistributedDataset", "DistributedDatasetsFromFunction"):
        if (kind := getattr(module, name, None)) is not None:
            _shuffle_differently(kind)


def _shuffle_differently(kind: Any) -> None:
    plain = kind.__iter__

    @wraps(plain)
    def __iter__(self: Any) -> Any:
        if _places and (worker := worker_index()) and not _is_sharded(self):
            for _ in range(worker):
                plain(self)  # each new iterator reshuffles, so worker n gets its own order by discarding n iterators
        return plain(self)

    kind.__iter__ = __iter__


def worker_index() -> int:
    """Return this worker's index among all training tasks, including the chief; 0 in a job of one worker."""
    if "TF_CONFIG" not in os.environ:
        return 0
    config = json.loads(os.environ["TF_CONFIG"])
    kind, index = config["task"]["type"], int(config["task"]["index"])
    return index + (len(config["cluster"].get("chief", ())) if kind == "worker" else 0)


def _is_sharded(dataset: Any) -> bool:
    """Return whether each worker gets a part of a dataset, sharded by TensorFlow or by the program."""
    if type(dataset).__name__ == "DistributedDataset":
        policy = dataset._original_dataset.options().experimental_distribute.auto_shard_policy
        return getattr(policy, "name", "AUTO") != "OFF"
    waiting = list(getattr(dataset, "_datasets", [dataset]))
    shuffled = False
    for each in waiting:
        if type(each).__name__ == "_ShardDataset":
            return True
        shuffled = shuffled or "Shuffle" in type(each).__name__ or "Random" in type(each).__name__
        inputs = getattr(each, "_inputs", None)
        waiting.extend(inputs() if callable(inputs) else ())
    return not shuffled


def shuffle_arrays(module: Any, load: Any) -> None:
    """Patch Keras 3 to shuffle arrays by permutations that depend only on a shared seed and the epoch number."""
    _share_permutations(module.ArrayDataAdapter, "get_tf_dataset", load)


def shuffle_arrays_of_keras_2(module: Any, load: Any) -> None:
    """Patch Keras 2 to shuffle arrays like the patched Keras 3 (see `shuffle_arrays`)."""
    _share_permutations(module.TensorLikeDataAdapter, "__init__", load)


def _share_permutations(kind: Any, name: str, load: Any) -> None:
    """Patch the method that creates an adapter's dataset to use the same permutations in all workers."""
    plain = getattr(kind, name)

    @wraps(plain)
    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _with_shared_permutations(self, load, lambda: plain(self, *args, **kwargs))

    setattr(kind, name, make)


def _with_shared_permutations(adapter: Any, load: Any, make: Any) -> Any:
    """Create a dataset with the same permutations in all workers. The variable `adapter.permutations` counts them."""
    tf = sys.modules["tensorflow"]
    resources = sys.modules["tensorflow.python.ops.resource_variable_ops"]
    if is_seeded():
        return make()
    _, place = load("task/patches/refusals").library_call(sys._getframe(2))
    seed = agreed_seed(place)
    with tf.init_scope(), tf.device("CPU:0"):  # creates a local variable even in a strategy's scope
        adapter.permutations = resources.ResourceVariable(0, dtype=tf.int64, trainable=False, name="epochs")
    plain, told = tf.random.shuffle, load("task/patches/told")

    def shuffle(value: Any, **_: object) -> Any:
        told.effect("order", load)
        number = adapter.permutations.assign_add(1, read_value=True)
        return tf.random.experimental.stateless_shuffle(value, seed=[seed, number])

    tf.random.shuffle = shuffle
    try:
        return make()
    finally:
        tf.random.shuffle = plain


def shuffle_batches(module: Any, load: Any) -> None:
    """Patch Keras 3 and 2 to shuffle the batches of a PyDataset or Sequence in the same order in all workers."""
    shared = ModuleType("random")
    vars(shared).update(vars(random))
    generators: list[random.Random] = []

    def shuffle(items: list[Any]) -> None:
        if is_seeded():
            return random.shuffle(items)
        if not generators:
            generators.append(random.Random(agreed_seed("batches")))
            load("task/patches/told").effect("order", load)
        return generators[0].shuffle(items)

    vars(shared)["shuffle"] = shuffle
    module.random = shared

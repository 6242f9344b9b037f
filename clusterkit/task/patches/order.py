"""Shuffles sharded data in the same order in all workers of a gang if the program gives no seed.

With sharding, every worker reads the whole dataset and keeps every n-th batch or row, so workers that shuffle
differently would skip some rows and train twice on others. Data that is not sharded keeps a different order in each
worker.

The order is agreed where the workers meet: when a multi-worker strategy distributes a dataset, the dataset is made
again (see `remaking`), with seeds that depend on the run's seed, on the line that created the shuffle, and on how many
datasets of that line were distributed before. Datasets that one worker alone makes, and iterators that one worker alone
creates, do not count. A later attempt shuffles in the same order: the first iterator of a distributed dataset has the
order of the first epoch, and so on.

Why not a seed that the leader sends to the others: they would have to agree for which dataset it is, and the only
number that they could agree on is that of the distributed datasets, from which the seed can follow as well. Also, a
restarted attempt has to have the same seeds.
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
ARRAYS, BATCHES = "arrays", "batches"  # places of seeds for which the program's line does not count
_places: Counter[str] = Counter()  # maps a line of the program to the number of seeds that the line has requested


def agreed_seed(place: str, counter: str = "") -> int:
    """Return a seed for a line of the program. All workers get the same seed for the line's n-th request.

    The seed depends on CLUSTERKIT_SEED or, if that is unset, on the cluster spec. Each `counter` counts by itself.
    """
    _places[counter + place] += 1
    return seed_of(place, _places[counter + place])


def seed_of(place: str, number: object) -> int:
    """Return the seed for a line's request with this number."""
    text = os.environ.get(SEED) or json.dumps(json.loads(os.environ["TF_CONFIG"])["cluster"], sort_keys=True)
    digest = hashlib.sha256(f"{text} {place} {number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def distributed_seed(place: str) -> int:
    """Return a seed for a line of the program. Only requests for distributed datasets count."""
    return agreed_seed(place, "distributed ")


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
    plain, remaking = module.get_seed, load("task/patches/remaking")

    @wraps(plain)
    def get_seed(seed: Any) -> Any:
        if seed is None and not is_seeded():
            seed = _seed_for(remaking, sys._getframe(1), load)
            load("task/patches/told").effect("order", load)
        return plain(seed)

    module.get_seed = get_seed


def _seed_for(remaking: Any, frame: Any, load: Any) -> int:
    """Return the seed for the dataset whose constructor runs in `frame`, and note its line if it can be made again."""
    dataset = frame.f_locals.get("self")
    _, place = load("task/patches/refusals").library_call(frame)
    if not sys.modules["tensorflow.python.eager.context"].executing_eagerly():
        # In a function, such as that of `interleave`, seeds are constants. They are counted in each function, since
        # another worker may have traced other functions before.
        graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
        if place.startswith("__autograph_generated_file"):  # the rest of the file's name is different in each worker
            place = place.partition(", ")[2]
        counts: Any = getattr(graph, "_clusterkit_places", Counter())
        counts[place] += 1
        graph._clusterkit_places = counts
        _places[f"in a function {place}"] += 1
        return seed_of(place, f"{counts[place]} in a function")
    if (seed := remaking.seed_of_remade()) is not None:
        return int(seed)
    if hasattr(dataset, remaking.RECIPE):
        setattr(dataset, remaking.PLACE, place)
    return agreed_seed(place)


def shuffle_differently(module: Any, load: Any) -> None:
    """Patch datasets: each worker iterates over a dataset that is not sharded in a different order."""
    for name in ("DatasetV2", "DistributedDataset", "DistributedDatasetsFromFunction"):
        if (kind := getattr(module, name, None)) is not None:
            _shuffle_differently(kind)
    if hasattr(module, "DatasetV2"):
        load("task/patches/remaking").keep_arguments(module)


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
    _share_permutations(module, module.ArrayDataAdapter, "get_tf_dataset", load)


def shuffle_arrays_of_keras_2(module: Any, load: Any) -> None:
    """Patch Keras 2 to shuffle arrays like the patched Keras 3 (see `shuffle_arrays`)."""
    _share_permutations(module, module.TensorLikeDataAdapter, "__init__", load)


def _share_permutations(module: Any, kind: Any, name: str, load: Any) -> None:
    """Patch the method that creates an adapter's dataset to use the same permutations in all workers."""
    plain = getattr(kind, name)

    @wraps(plain)
    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        tf = getattr(module, "tf", sys.modules["tensorflow"])  # Keras 2 uses tf.compat.v2, whose `random` is another
        return _with_shared_permutations(self, tf, load, lambda: plain(self, *args, **kwargs))

    setattr(kind, name, make)


def _with_shared_permutations(adapter: Any, tf: Any, load: Any, make: Any) -> Any:
    """Create a dataset with the same permutations in all workers. The variable `adapter.permutations` counts them."""
    resources = sys.modules["tensorflow.python.ops.resource_variable_ops"]
    if is_seeded():
        return make()
    plain, told = tf.random.shuffle, load("task/patches/told")
    seeds: list[Any] = []  # a variable, once the adapter shuffles

    def variable(value: int, name: str) -> Any:
        with tf.init_scope(), tf.device("CPU:0"):  # creates a local variable even in a strategy's scope
            return resources.ResourceVariable(value, dtype=tf.int64, trainable=False, name=name)

    def shuffle(value: Any, **_: object) -> Any:
        told.effect("order", load)
        if not seeds:
            seeds.append(variable(agreed_seed(ARRAYS), "seed"))
            adapter.permutations = variable(0, "epochs")
        number = adapter.permutations.assign_add(1, read_value=True)
        return tf.random.experimental.stateless_shuffle(value, seed=[seeds[0], number])

    tf.random.shuffle = shuffle
    try:
        made = make()
    finally:
        tf.random.shuffle = plain
    if seeds:
        dataset = made if made is not None else adapter.get_dataset()
        setattr(dataset, load("task/patches/remaking").AGREE, lambda: seeds[0].assign(distributed_seed(ARRAYS)))
    return made


def shuffle_batches(module: Any, load: Any) -> None:
    """Patch Keras 3 and 2 to shuffle the batches of a PyDataset or Sequence in the same order in all workers.

    Each adapter has a generator of its own, which gets its seed when the adapter's dataset is distributed.
    """
    shared = ModuleType("random")
    vars(shared).update(vars(random))

    def generator_for(owner: Any) -> Any:
        return random if is_seeded() else order_of(shared if owner is None else owner)

    def shuffle(items: list[Any]) -> None:
        generator = generator_for(sys._getframe(1).f_locals.get("self"))
        if generator is not random:
            load("task/patches/told").effect("order", load)
        generator.shuffle(items)

    # `training.Backup` calls `generator_for`.
    vars(shared).update(shuffle=shuffle, generator_for=generator_for)
    module.random = shared
    if (kind := getattr(module, "PyDatasetAdapter", None)) is not None:
        _agree_on_batches(kind, "get_tf_dataset", load)


def shuffle_all_of_keras_2(module: Any, load: Any) -> None:
    """Patch the module of Keras 2's adapters, which shuffle arrays and the batches of a Sequence."""
    shuffle_arrays_of_keras_2(module, load)
    shuffle_batches(module, load)
    _agree_on_batches(module.KerasSequenceAdapter, "__init__", load)


def order_of(owner: Any) -> random.Random:
    """Return the generator that shuffles the batches of an adapter or an enqueuer of Keras."""
    owner = getattr(owner, "order_owner", owner)
    if not hasattr(owner, "shared_order"):
        owner.shared_order = random.Random(agreed_seed(BATCHES))
    generator: random.Random = owner.shared_order
    return generator


def _agree_on_batches(kind: Any, name: str, load: Any) -> None:
    """Patch the method that creates an adapter's dataset, so that its generator is seeded at the distribution."""
    plain = getattr(kind, name)

    @wraps(plain)
    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = plain(self, *args, **kwargs)
        for enqueuer in (getattr(self, "enqueuer", None), getattr(self, "_enqueuer", None)):
            if enqueuer is not None:
                enqueuer.order_owner = self

        def agree_on_order() -> None:
            self.shared_order = random.Random(distributed_seed(BATCHES))

        if getattr(self, "shuffle", False) or getattr(self, "_shuffle_sequence", False):
            setattr(self.get_dataset() if made is None else made, load("task/patches/remaking").AGREE, agree_on_order)
        return made

    setattr(kind, name, make)

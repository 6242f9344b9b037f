"""How a dataset is sharded among the workers of a job."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from clusterkit.training import this_task

POLICIES: Final = ("file", "data", "off")


def sharded(dataset: Any, policy: str | None = None) -> Any:
    """Set how `experimental_distribute_dataset` and `fit` shard a dataset among workers (AutoShardPolicy).

        model.fit(training.sharded(dataset), epochs=10)

    ``data``: each worker reads everything and keeps every n-th element. It works for any dataset that has the same
    order in all workers: give `shuffle` a seed, or shuffle after distributing.
    ``file``: each worker reads every n-th file, and so only its own part, in any order. There must be at least as many
    files as workers, of about the same size; otherwise workers end at different steps and the job stops.
    ``off``: each worker reads the whole dataset. Each should then use a different order, and an epoch covers the data
    as many times as there are workers.

    TensorFlow's default, AUTO, uses ``file`` for every dataset that reads files, even too few of them.

    Args:
        dataset: a `tf.data.Dataset`.
        policy: ``data``, ``file`` or ``off``. None is ``data`` under MultiWorkerMirroredStrategy (the current strategy
            or, outside a scope, the one that TF_CONFIG implies) and ``off`` otherwise: in a single process the replicas
            get parts of each batch, and with parameter servers each worker makes its own dataset, with its own seed.

    Returns:
        The dataset with this option set.

    Raises:
        ValueError: the policy is unknown.
    """
    if policy is not None and policy not in POLICIES:
        raise ValueError(f"Unknown sharding policy {policy!r}: use one of {', '.join(POLICIES)}.")
    options = tf.data.Options()
    kinds = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = getattr(kinds, (policy or _default()).upper())
    return dataset.with_options(options)


def _default() -> str:
    if tf.distribute.has_strategy():
        together = isinstance(tf.distribute.get_strategy(), tf.distribute.MultiWorkerMirroredStrategy)
    else:
        together = this_task.is_in_step()
    return "data" if together else "off"

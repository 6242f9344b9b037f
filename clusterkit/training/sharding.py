"""How a dataset is divided among the workers of a job."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from clusterkit.training import roles

POLICIES: Final = ("file", "data", "off")


def sharded(dataset: Any, policy: str | None = None) -> Any:
    """Say how `experimental_distribute_dataset` and `fit` divide a dataset among workers (AutoShardPolicy).

    ``data``: each worker reads everything and keeps every n-th element. Right for each dataset that comes in the same
    order in all workers: give `shuffle` a seed, or shuffle after the distribution.
    ``file``: each worker reads every n-th file. It reads only its own part, and any order will do; but there must be
    at least as many files as workers, of about the same size, or workers end at different steps and the job stops.
    ``off``: each worker has the whole dataset. Then each should see it in an order of its own, and an epoch is as many
    times the data as there are workers.

    TensorFlow's own default, AUTO, takes ``file`` wherever there are files, also too few of them.

    Args:
        dataset: a `tf.data.Dataset`.
        policy: one of the three. None takes what is right whatever the dataset is: ``data`` under
            MultiWorkerMirroredStrategy (the one in scope or, outside of any, where TF_CONFIG asks for it) and ``off``
            otherwise. In a single process there is nothing to divide: the replicas get parts of each batch. With
            parameter servers each worker makes a dataset of its own, with a seed of its own.

    Returns:
        The dataset with this option set.

    Raises:
        ValueError: there is no such policy.
    """
    if policy is not None and policy not in POLICIES:
        raise ValueError(f"There is no sharding policy {policy!r}; there are {', '.join(POLICIES)}.")
    options = tf.data.Options()
    kinds = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = getattr(kinds, (policy or _usual()).upper())
    return dataset.with_options(options)


def _usual() -> str:
    if tf.distribute.has_strategy():
        together = isinstance(tf.distribute.get_strategy(), tf.distribute.MultiWorkerMirroredStrategy)
    else:
        together = roles.in_cluster() and not roles.has_ps()
    return "data" if together else "off"

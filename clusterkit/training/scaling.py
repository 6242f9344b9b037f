"""How batch size and learning rate go with the number of replicas that train in step; standard library only."""

from __future__ import annotations

import sys
from typing import Any

from clusterkit.training import roles


def replicas(strategy: Any = None) -> int:
    """How many replicas' gradients make one step.

    Those of `strategy`; else of the strategy in whose scope this is called; else the workers in TF_CONFIG, where a
    job with parameter servers counts as one, since it applies each worker's step alone.
    """
    if strategy is None and (tf := sys.modules.get("tensorflow")) is not None and tf.distribute.has_strategy():
        strategy = tf.distribute.get_strategy()
    if strategy is not None:
        return int(strategy.num_replicas_in_sync)
    return 1 if roles.has_ps() else roles.num_workers()


def per_replica_batch(global_batch: int, strategy: Any = None) -> int:
    """One replica's part of a global batch.

    `tf.distribute` wants the global batch for `experimental_distribute_dataset` and `fit`, and this part of it for
    `distribute_datasets_from_function` (times the replicas of a worker) and in a loop that draws its own batches.

    Args:
        global_batch: examples in one step of all replicas together.
        strategy: whose replicas; by default see `replicas`.

    Raises:
        ValueError: it does not divide. Parts that differ would weigh examples differently.
    """
    among = replicas(strategy)
    if global_batch < 1 or global_batch % among:
        near = max(among, global_batch // among * among)
        raise ValueError(
            f"A global batch of {global_batch} does not divide among {among} replicas; "
            f"{near} does" + (f", and {near + among}." if near < global_batch else ".")
        )
    return global_batch // among


def scaled(base: float, step: int, warmup_steps: int, scale: float | None = None) -> float:
    """The learning rate of a step: scaled with the number of replicas, reached gradually.

    With k replicas a step sees k times the examples, so it may go k times as far; but not at the very beginning,
    when the weights change fast. So the rate grows linearly from `base` to k times `base` during the warm-up
    (Goyal et al. 2017, arXiv:1706.02677).

    Args:
        base: the rate that is right for one replica.
        step: steps done, from 0.
        warmup_steps: after how many it is reached; 0 is from the start.
        scale: k; by default see `replicas`.
    """
    k = replicas() if scale is None else scale
    share = min(1.0, step / warmup_steps) if warmup_steps > 0 else 1.0
    return base * (1.0 + (k - 1.0) * share)

"""Batch size and learning rate as functions of the number of replicas. Standard library only."""

from __future__ import annotations

import sys
from typing import Any

from clusterkit.training import this_task


def replicas(strategy: Any = None) -> int:
    """Return the number of replicas whose gradients are combined in one step.

    This is the `num_replicas_in_sync` of `strategy` or, by default, of the current strategy. Without any strategy, it
    is the number of workers in TF_CONFIG, or 1 with parameter servers, which apply each worker's step separately.
    """
    if strategy is None and (tf := sys.modules.get("tensorflow")) is not None and tf.distribute.has_strategy():
        strategy = tf.distribute.get_strategy()
    if strategy is not None:
        return int(strategy.num_replicas_in_sync)
    return 1 if this_task.has_ps() else this_task.num_workers()


def per_replica_batch(global_batch: int, strategy: Any = None) -> int:
    """Return the size of one replica's part of a global batch.

    `tf.distribute` expects the global batch size in `experimental_distribute_dataset` and `fit`, and the per-replica
    size in `distribute_datasets_from_function` (times the replicas of a worker) and in loops that draw their own
    batches.

    Args:
        global_batch: the number of examples in one step of all replicas together.
        strategy: the strategy whose replicas are counted; by default the current one or, without one, the workers in
            TF_CONFIG.

    Raises:
        ValueError: the global batch is not divisible by the number of replicas. Unequal parts would weight examples
            differently.
    """
    among = replicas(strategy)
    if global_batch < 1 or global_batch % among:
        near = max(among, global_batch // among * among)
        raise ValueError(
            f"A global batch of {global_batch} is not divisible by the {among} replicas: use "
            f"{near}" + (f" or {near + among}." if near < global_batch else ".")
        )
    return global_batch // among


def scaled(base: float, step: int, warmup_steps: int, scale: float | None = None) -> float:
    """Return the learning rate of a step, by linear scaling with gradual warm-up.

    With k replicas a step processes k times as many examples, so the learning rate can be k times as large, except at
    the very beginning, when the weights change fast. It therefore grows linearly from `base` to k times `base` during
    the warm-up (Goyal et al. 2017, arXiv:1706.02677). `learning_rate` returns the same function as a Keras schedule.

    Args:
        base: the learning rate for one replica.
        step: the number of steps done, from 0.
        warmup_steps: the length of the warm-up; 0 for none.
        scale: the factor k; by default the number of replicas of the current strategy or, without one, of the workers
            in TF_CONFIG.
    """
    k = replicas() if scale is None else scale
    share = min(1.0, step / warmup_steps) if warmup_steps > 0 else 1.0
    return base * (1.0 + (k - 1.0) * share)

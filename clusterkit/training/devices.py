"""The devices of this machine that a strategy of one process may use."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class StrategyUnavailable(RuntimeError):
    """The strategy that was asked for can't be had in this task; the message says why, and what to do."""


def gpus() -> list[Any]:
    """The GPUs that this task can see."""
    return list(tf.config.list_physical_devices("GPU"))


def places(count: int | None) -> list[str] | None:
    """The names of so many GPUs or, where there is no GPU, logical CPU devices; None for what TensorFlow takes.

    Raises:
        StrategyUnavailable: there are fewer GPUs; or TensorFlow was used before, and the CPU is one device by now.
    """
    if count is None:
        return None
    there = len(gpus())
    if there == 0:
        divide_cpu(count)
        return [f"/cpu:{number}" for number in range(count)]
    if there < count:
        raise StrategyUnavailable(f"{count} devices were asked for, and this task can see {there} GPUs.")
    return [f"/gpu:{number}" for number in range(count)]


def divide_cpu(count: int) -> None:
    """Make the CPU `count` logical devices; they share its cores, so this shows what happens and is no faster."""
    (first, *_) = tf.config.list_physical_devices("CPU")
    try:
        tf.config.set_logical_device_configuration(first, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:  # TensorFlow has begun; what it began with may do
        have = len(tf.config.list_logical_devices("CPU"))
        if have < count:
            raise StrategyUnavailable(
                f"The CPU can't be divided into {count} devices any more, since TensorFlow has begun with {have}. "
                "Call clusterkit.training.strategy() before anything else of TensorFlow."
            ) from None

"""The devices that a single-process strategy may use: GPUs, or logical devices of the CPU."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from clusterkit.training import this_task


class StrategyUnavailable(RuntimeError):
    """The requested strategy is not available in this task; the message says why and what to do."""


def gpus() -> list[Any]:
    """Return the physical GPUs that are visible to this task."""
    return list(tf.config.list_physical_devices("GPU"))


def device_names(count: int | None) -> list[str] | None:
    """Return the names of `count` GPUs or, without any GPU, of `count` logical CPU devices, which it creates.

    Returns:
        Names such as ``/gpu:0``; None for a `count` of None: TensorFlow then chooses the devices itself.

    Raises:
        StrategyUnavailable: there are fewer GPUs, or TensorFlow is already initialized with fewer CPU devices.
    """
    if count is None:
        return None
    visible = len(gpus())
    if visible == 0:
        split_cpu(count)
        return [f"/cpu:{number}" for number in range(count)]
    if visible < count:
        raise StrategyUnavailable(f"{count} devices were requested, but {this_task.task()} sees only {visible} GPUs.")
    return [f"/gpu:{number}" for number in range(count)]


def split_cpu(count: int) -> None:
    """Split the CPU into `count` logical devices. They share its cores: useful to try a strategy, but no faster."""
    (first, *_) = tf.config.list_physical_devices("CPU")
    try:
        tf.config.set_logical_device_configuration(first, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:  # TensorFlow is already initialized, perhaps with enough devices
        have = len(tf.config.list_logical_devices("CPU"))
        if have < count:
            raise StrategyUnavailable(
                f"The CPU can't be split into {count} devices: TensorFlow is already initialized with {have}. "
                "Call clusterkit.training.strategy() before anything else of TensorFlow."
            ) from None

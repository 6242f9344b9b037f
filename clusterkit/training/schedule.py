"""A Keras learning-rate schedule that grows with the number of replicas; of ``tf.keras``, as the callbacks are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from clusterkit.training import scaling


@tf.keras.utils.register_keras_serializable(package="clusterkit")
class GradualWarmup(tf.keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]  # it ships no types
    """From `base` to `scale` times `base` in `warmup_steps` steps; then that, or `scale` times `after`."""

    def __init__(self, base: float, scale: float, warmup_steps: int = 0, after: Any = None) -> None:
        super().__init__()
        self.base, self.scale, self.warmup_steps, self.after = base, scale, warmup_steps, after

    def __call__(self, step: Any) -> Any:
        done = tf.cast(step, tf.float32)
        share = tf.minimum(1.0, done / self.warmup_steps) if self.warmup_steps else 1.0
        warming = self.base * (1.0 + (self.scale - 1.0) * share)
        if self.after is None:
            return tf.convert_to_tensor(warming, tf.float32)
        later = self.scale * tf.cast(self.after(tf.maximum(0.0, done - self.warmup_steps)), tf.float32)
        return tf.where(done < self.warmup_steps, warming, later)

    def get_config(self) -> dict[str, Any]:
        """What makes the same schedule again."""
        after = None if self.after is None else tf.keras.optimizers.schedules.serialize(self.after)
        return {"base": self.base, "scale": self.scale, "warmup_steps": self.warmup_steps, "after": after}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> GradualWarmup:
        """The schedule of `get_config`, also in a program that has never called `learning_rate`."""
        after = config["after"]
        made = tf.keras.optimizers.schedules.deserialize(after) if isinstance(after, Mapping) else after
        return cls(config["base"], config["scale"], config["warmup_steps"], made)


def learning_rate(base: float, *, scale: float | None = None, warmup_steps: int = 0, after: Any = None) -> Any:
    """A schedule for a Keras optimizer: linear scaling with gradual warm-up (Goyal et al. 2017, arXiv:1706.02677).

    See `scaled`, which is the same as a plain function.

    Args:
        base: the rate that is right for one replica.
        scale: by how much it grows; by default the number of replicas that train in step (see `replicas`). Taken
            once, here, and saved with the schedule.
        warmup_steps: steps until then; 0 is from the start.
        after: a schedule, right for one replica, for the time after the warm-up. It counts steps from there and is
            scaled as `base` is; normally it begins with `base`.

    Raises:
        ValueError: `base` or `scale` is not above 0, or `warmup_steps` is negative.
    """
    times = scaling.replicas() if scale is None else scale
    if base <= 0 or times <= 0 or warmup_steps < 0:
        raise ValueError(
            f"learning_rate({base}, scale={times}, warmup_steps={warmup_steps}): rate and scale must be above 0, "
            "and the steps of the warm-up from 0 up."
        )
    return GradualWarmup(float(base), float(times), warmup_steps, after)

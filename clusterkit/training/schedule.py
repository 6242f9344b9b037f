"""A Keras learning-rate schedule that scales with the number of replicas. Its base class is in ``tf.keras``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from clusterkit.training import scaling


@tf.keras.utils.register_keras_serializable(package="clusterkit")
class GradualWarmup(tf.keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]  # it ships no types
    """A rate that grows to `scale * base` in `warmup_steps`, then is constant or follows `scale * after`."""

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
        """Return the arguments that recreate this schedule, as Keras expects."""
        after = None if self.after is None else tf.keras.optimizers.schedules.serialize(self.after)
        return {"base": self.base, "scale": self.scale, "warmup_steps": self.warmup_steps, "after": after}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> GradualWarmup:
        """Recreate a schedule from `get_config`; Keras calls this when it loads a model."""
        after = config["after"]
        made = tf.keras.optimizers.schedules.deserialize(after) if isinstance(after, Mapping) else after
        return cls(config["base"], config["scale"], config["warmup_steps"], made)


def learning_rate(base: float, *, scale: float | None = None, warmup_steps: int = 0, after: Any = None) -> Any:
    """Return a Keras schedule for linear scaling with gradual warm-up (Goyal et al. 2017, arXiv:1706.02677).

        rate = training.learning_rate(0.1, warmup_steps=500)
        optimizer = tf.keras.optimizers.SGD(rate)

    `scaled` computes the same rate as a function of the step.

    Args:
        base: the learning rate for one replica.
        scale: the factor after the warm-up; by default the number of replicas of the current strategy or, without one,
            of the workers in TF_CONFIG. The default is determined in this call and saved with the schedule.
        warmup_steps: the length of the warm-up; 0 for none.
        after: a schedule for one replica that applies after the warm-up. Its steps are counted from the end of the
            warm-up, and its rate is multiplied by `scale`. It normally starts at `base`.

    Returns:
        A `tf.keras.optimizers.schedules.LearningRateSchedule`.

    Raises:
        ValueError: `base` or `scale` is not above 0, or `warmup_steps` is negative.
    """
    times = scaling.replicas() if scale is None else scale
    if base <= 0 or times <= 0 or warmup_steps < 0:
        raise ValueError(
            f"learning_rate({base}, scale={times}, warmup_steps={warmup_steps}) is invalid: base and scale must be "
            "above 0, and warmup_steps at least 0."
        )
    return GradualWarmup(float(base), float(times), warmup_steps, after)

"""Slows steps down, so that a run is long enough to inject faults."""

from __future__ import annotations

import tensorflow as tf


def slowed(dataset: tf.data.Dataset, seconds: float) -> tf.data.Dataset:
    """Make each element of `dataset` take at least `seconds`, by sleeping in the task that reads it.

    Why not `time.sleep` in a map: the workers of a parameter-server job run TensorFlow graphs, but not our Python code.
    """
    if seconds <= 0:
        return dataset
    specs = tf.nest.flatten(dataset.element_spec)
    asleep = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        sleep_microseconds=tf.constant(round(seconds * 1e6), tf.int64),
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )
    return tf.data.experimental.from_variant(asleep, dataset.element_spec)

"""Handwritten digits of 8 x 8 pixels from scikit-learn: real data without a download."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

PIXELS = 64
CLASSES = 10
HELD_OUT = 360  # of 1797


class Digits(NamedTuple):
    """`images`: float32 [n, 64], 0 to 1; `labels`: int64 [n], 0 to 9."""

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


def load(seed: int = 2017) -> tuple[Digits, Digits]:
    """Return training and held-out digits, split the same way in every task."""
    bunch = load_digits()
    order = np.random.default_rng(seed).permutation(len(bunch.target))
    images = (bunch.data[order] / 16.0).astype(np.float32)
    labels = bunch.target[order].astype(np.int64)
    return Digits(images[HELD_OUT:], labels[HELD_OUT:]), Digits(images[:HELD_OUT], labels[:HELD_OUT])


def accuracy(model: Any, data: Digits) -> float:
    """Return the share of images that the model classifies correctly."""
    import tensorflow as tf  # here, since JAX's programs load the same data

    right = tf.argmax(model(data.images), axis=1) == data.labels
    return float(tf.reduce_mean(tf.cast(right, tf.float32)))

"""MNIST and CIFAR-10, or stand-ins of the same shape if they are neither cached nor available for download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import digits
import keras_data
import numpy as np
import numpy.typing as npt
import tensorflow as tf

SOURCES = ("auto", "stand-in")  # auto: the real data if available
CLASSES = 10
DRAWN, DRAWN_HELD_OUT = 6000, 1000


class Images(NamedTuple):
    """`pixels`: uint8 [n, height, width, channels]; `labels`: int64 [n], 0 to 9."""

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]


Sets = tuple[Images, Images]  # training and held-out data


def mnist(strategy: tf.distribute.Strategy, source: str = "auto") -> Sets:
    """Load handwritten digits, 28 x 28 x 1: 60000 and 10000. The stand-in is scikit-learn's 1797, scaled up."""
    stand_in = "scikit-learn's digits, scaled up to 28 x 28 (in place of MNIST)"
    return _load("mnist", "MNIST", strategy, source, scaled_digits, stand_in)


def cifar10(strategy: tf.distribute.Strategy, source: str = "auto") -> Sets:
    """Load photographs, 32 x 32 x 3: 50000 and 10000. The stand-in is drawn shapes and textures in random colours."""
    stand_in = "10 classes of drawn shapes and textures (in place of CIFAR-10)"
    return _load("cifar10", "CIFAR-10", strategy, source, drawn_shapes, stand_in)


def _load(key: str, name: str, strategy: Any, source: str, make: Callable[[], Sets], stand_in: str) -> Sets:
    real = keras_data.load(key, strategy) if source == "auto" else None
    learning, held_out = (_as_images(*real[0]), _as_images(*real[1])) if real else make()
    keras_data.say(name if real else stand_in, len(learning.labels), len(held_out.labels))
    return learning, held_out


def _as_images(pixels: Any, labels: Any) -> Images:
    shaped = pixels if pixels.ndim == 4 else pixels[..., np.newaxis]
    return Images(np.ascontiguousarray(shaped, np.uint8), labels.reshape(-1).astype(np.int64))


def scaled_digits() -> Sets:
    """Return scikit-learn's digits in the format of MNIST."""

    def scaled(some: digits.Digits) -> Images:
        large = tf.image.resize(some.images.reshape(-1, 8, 8, 1), (28, 28), "bicubic")
        return Images(tf.cast(tf.clip_by_value(large * 255.0, 0.0, 255.0), tf.uint8).numpy(), some.labels)

    learning, held_out = digits.load()
    return scaled(learning), scaled(held_out)


def drawn_shapes() -> Sets:
    """Draw shapes and textures with random colours, position, size and noise; the same in every task."""
    return draw(DRAWN, seed=1), draw(DRAWN_HELD_OUT, seed=2)


def draw(count: int, seed: int) -> Images:
    """Draw discs, rings, squares, diamonds, triangles, crosses, stripes in three directions, and chessboards."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    place = random.uniform(12, 20, (2, count, 1, 1)).astype(np.float32)
    size = random.uniform(6, 11, (count, 1, 1)).astype(np.float32)
    y, x = (np.mgrid[:32, :32][:, np.newaxis] - place) / size  # 1 is the shape's edge
    far, wide = np.hypot(x, y), np.maximum(abs(x), abs(y))
    wave_x, wave_y = np.sin(8 * x), np.sin(8 * y)
    kinds = [
        *(far < 1, (far > 0.6) & (far < 1), wide < 0.85, abs(x) + abs(y) < 1.1, (y < 0.8) & (y > 2 * abs(x) - 1)),
        *(np.minimum(abs(x), abs(y)) < 0.3, wave_y > 0, wave_x > 0, np.sin(6 * (x + y)) > 0, wave_x * wave_y > 0),
    ]
    kinds[5] &= wide < 1
    inside = np.choose(labels[:, np.newaxis, np.newaxis], kinds)[..., np.newaxis]
    ground = random.uniform(0, 1, (count, 1, 1, 3)).astype(np.float32)
    ink = (ground + random.uniform(0.3, 0.7, (count, 1, 1, 3)).astype(np.float32)) % 1.0
    noise = 0.1 * random.standard_normal((count, 32, 32, 3), np.float32)
    return Images((np.clip(np.where(inside, ink, ground) + noise, 0, 1) * 255).astype(np.uint8), labels)

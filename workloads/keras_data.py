"""The data sets of `tf.keras.datasets`, if all tasks of a job can load them."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any

import tensorflow as tf

from clusterkit import training

PATIENCE = 5.0  # seconds for the server to answer
_GOOGLE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"
SOURCES = {  # the URL that Keras downloads from, and the file that it then has in its cache
    "mnist": (f"{_GOOGLE}/mnist.npz", "mnist.npz"),
    "imdb": (f"{_GOOGLE}/imdb.npz", "imdb.npz"),
    "cifar10": ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "cifar-10-batches-py-target_archive"),
}


def load(name: str, strategy: tf.distribute.Strategy, **options: Any) -> Any:
    """Return the result of `load_data(**options)`; None in all tasks if one of them can't load the data."""
    real = _real(name, options)
    return real if _have_all(strategy, real is not None) else None


def say(what: str, learning: int, held_out: int) -> None:
    """Print which data the job uses, once per job."""
    if training.is_chief():
        print(f"data: {what}, {learning} for training and {held_out} held out")


def _have_all(strategy: Any, here: bool) -> bool:
    """Return whether all workers have the data: otherwise some would train on different data."""
    if not training.in_cluster() or training.has_ps():
        return here
    all_missing = tf.function(
        lambda: strategy.reduce("SUM", strategy.run(lambda: tf.constant(float(not here))), axis=None)
    )
    return float(all_missing()) == 0.0


def _real(name: str, options: dict[str, Any]) -> Any:
    """Load from Keras's cache or its server; return None if both fail."""
    url, cached = SOURCES[name]
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    if not (home / "datasets" / cached).exists() and not _answers(url):
        return None
    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    # One task per machine at a time: Keras downloads and unpacks into the directory that others read from.
    with Path(tempfile.gettempdir(), f"workloads-{os.getuid()}-{name}.lock").open("w") as lock:
        try:
            with training.phase("download"):
                fcntl.flock(lock, fcntl.LOCK_EX)
                return getattr(tf.keras.datasets, name).load_data(**options)
        except Exception as error:  # Keras raises plain exceptions
            print(f"{name} could not be loaded: {error}")
            return None
        finally:
            socket.setdefaulttimeout(patience)


def _answers(url: str) -> bool:
    """Return whether the server answers in time. Runs in a thread, since DNS look-ups have no timeout."""
    answers: list[bool] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PATIENCE):
                answers.append(True)
        except (OSError, ValueError):
            answers.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return any(answers)

"""The data sets of `tf.keras.datasets`, where they are or can be had, in all tasks of a job or in none."""

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
SERVED = {  # where Keras gets each, and the file in its cache that says that it has it
    "mnist": (f"{_GOOGLE}/mnist.npz", "mnist.npz"),
    "imdb": (f"{_GOOGLE}/imdb.npz", "imdb.npz"),
    "cifar10": ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "cifar-10-batches-py-target_archive"),
}


def load(name: str, strategy: tf.distribute.Strategy, **options: Any) -> Any:
    """What `load_data(**options)` gives; None in all tasks where one of them has it not."""
    real = _real(name, options)
    return real if _all_have_it(strategy, real is not None) else None


def say(what: str, learning: int, held_out: int) -> None:
    """Tell once what a job learns from."""
    if training.is_chief():
        print(f"data: {what}, {learning} to learn from and {held_out} held out")


def _all_have_it(strategy: Any, here: bool) -> bool:
    """Whether all workers have it: half of them must not train on something else."""
    if not training.in_cluster() or training.has_ps():
        return here
    all_missing = tf.function(
        lambda: strategy.reduce("SUM", strategy.run(lambda: tf.constant(float(not here))), axis=None)
    )
    return float(all_missing()) == 0.0


def _real(name: str, options: dict[str, Any]) -> Any:
    """From Keras's cache or its server; None where there is neither."""
    url, cached = SERVED[name]
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    if not (home / "datasets" / cached).exists() and not _answers(url):
        return None
    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    # One task of a machine at a time: Keras downloads and unpacks into the place where another would be reading.
    with Path(tempfile.gettempdir(), f"workloads-{os.getuid()}-{name}.lock").open("w") as lock:
        try:
            with training.phase("download"):
                fcntl.flock(lock, fcntl.LOCK_EX)
                return getattr(tf.keras.datasets, name).load_data(**options)
        except Exception as error:  # Keras raises no more exact one
            print(f"{name} could not be loaded: {error}")
            return None
        finally:
            socket.setdefaulttimeout(patience)


def _answers(url: str) -> bool:
    """Whether the server answers in time; in a thread, since a look-up of its name knows no time limit."""
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

"""Trains small Keras models, each in its own way, and writes what came out: alone, or as a worker among others.

    python keras_table.py DIRECTORY CASE...

The rows, their order and the batches are the same in either case, so has to be what is learned. A case is a function of
one of the modules `keras_cases_*`; it returns a model, whose weights are written, and a dict of numbers.
"""

import importlib
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras_cases
import numpy as np
import tensorflow as tf

MODULES = ("losses", "metrics", "goals", "data", "steps", "programs", "optimizers", "layers", "compiled")
IN_CLUSTER = "TF_CONFIG" in os.environ


def cases():
    """All cases by name."""
    modules = [importlib.import_module(f"keras_cases_{name}") for name in MODULES]
    return {name: case for module in modules for name, case in module.CASES.items()}


def written(directory, name, case, strategy):
    """Run a case, and write its numbers."""
    tf.keras.utils.set_random_seed(2017)
    with strategy.scope():
        model, numbers = case()
    values = [strategy.experimental_local_results(weight.value) for weight in model.weights] if model else []
    arrays = {f"weight {number}": np.stack(value).mean(axis=0) for number, value in enumerate(values)}
    np.savez(directory / f"{name}.npz", **arrays, **{key: np.asarray(value) for key, value in numbers.items()})
    print("done", name, flush=True)


def main():
    """Run the cases named on the command line."""
    directory = Path(sys.argv[1], os.environ.get("CLUSTERKIT_TASK", "alone"))
    directory.mkdir(parents=True)
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if IN_CLUSTER else tf.distribute.get_strategy()
    known = cases()
    for name in sys.argv[2:] or known:
        written(directory, name, known[name], strategy)
    with strategy.scope():
        keras_cases.together()  # the first to end ends the job


if __name__ == "__main__":
    main()

"""What the cases of keras_table.py share: data, small models, and a table of cases."""

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
BATCH = 16  # rows, of all workers together
ROWS = 53  # three batches and five rows: more for one worker than for another
LESS = 49  # three batches and one row, of which all workers but one have none
EPOCHS = 2

drawn = np.random.default_rng(2017)
X = drawn.normal(size=(ROWS, 6)).astype("float32")
IMAGES = drawn.normal(size=(ROWS, 6, 6, 2)).astype("float32")
LENGTHS = drawn.integers(2, 8, size=ROWS)
WORDS = np.where(np.arange(7) < LENGTHS[:, None], drawn.integers(1, 20, size=(ROWS, 7)), 0)  # padded with zeros
Y = (X @ drawn.normal(size=(6, 3)) + IMAGES[:, :3, 0, 0]).argmax(axis=1)
ONE_HOT = np.eye(3, dtype="float32")[Y]
TAGS = WORDS % 3
NUMBERS = X.sum(axis=1, keepdims=True)
SIGNS = (NUMBERS > 0).astype("float32")
WEIGHTS = drawn.uniform(0.2, 3.0, size=ROWS).astype("float32")


def table():
    """Return an empty table of cases, and the decorator that adds one."""
    cases = {}

    def case(function):
        cases[function.__name__] = function
        return function

    return cases, case


def several(cases, prefix, function, **arguments):
    """Add a case for each of the arguments: what a name stands for, given to the function."""
    for name, argument in arguments.items():
        cases[f"{prefix}_{name}"] = lambda argument=argument: function(argument)


def together():
    """Wait until all workers are here, such as before the others read what the chief writes, or before one ends."""
    tf.distribute.get_strategy().reduce("SUM", tf.ones(()), axis=None)


def classifier(*hidden, **options):
    """A model of three classes."""
    inputs = keras.Input((6,))
    outputs = inputs
    for layer in hidden or (layers.Dense(5, "tanh"),):
        outputs = layer(outputs)
    return compiled(keras.Model(inputs, layers.Dense(3)(outputs)), **options)


def regression(activation=None, units=1, **options):
    """A model of numbers."""
    inputs = keras.Input((6,))
    outputs = layers.Dense(units, activation)(layers.Dense(4, "tanh")(inputs))
    return compiled(keras.Model(inputs, outputs), **{"loss": "mse", "metrics": ["mae"], **options})


def compiled(model, optimizer=None, **options):
    """Compile a model, as a classifier where nothing else is asked for."""
    usual = {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "metrics": ["accuracy"]}
    model.compile(optimizer or keras.optimizers.SGD(0.2), **{**usual, **options})
    return model


def first(values, rows):
    """The first rows of arrays."""
    return None if values is None else tf.nest.map_structure(lambda value: value[:rows], values)


def fitted(model, x=X, y=Y, rows=ROWS, **options):
    """Fit with arrays in their order; return the model and its history."""
    options = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, "verbose": 0, **options}
    if "sample_weight" in options:
        options["sample_weight"] = first(options["sample_weight"], rows)
    history = model.fit(first(x, rows), first(y, rows), **options).history
    return model, dict(history)


def dataset(x=X, y=Y, rows=ROWS, batch=BATCH):
    """A dataset of these rows in their order."""
    return tf.data.Dataset.from_tensor_slices((first(x, rows), first(y, rows))).batch(batch)

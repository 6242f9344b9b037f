"""Kinds of data, and how often each row is seen: every worker has to read its own part of one order."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from keras_cases import BATCH, EPOCHS, LESS, ROWS, X, Y, classifier, compiled, dataset, fitted, keras, layers, table

CASES, case = table()
IDS = np.arange(ROWS)


class Seen(keras.metrics.Metric):
    """Counts how often each row was seen; the rows' numbers are the targets."""

    def __init__(self, name="seen"):
        super().__init__(name=name)
        self.counts = self.add_variable(shape=(ROWS,), initializer="zeros", name="counts")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.counts.assign_add(
            tf.math.bincount(
                tf.reshape(tf.cast(y_true, tf.int32), [-1]), minlength=ROWS, maxlength=ROWS, dtype=tf.float32
            )
        )

    def result(self):
        return tf.reduce_sum(self.counts)


class Note(keras.callbacks.Callback):
    """Notes the counts at the end of each epoch."""

    def __init__(self, seen):
        super().__init__()
        self.seen, self.epochs = seen, []

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(np.asarray(self.seen.counts.value))


def counted(x, y=None, epochs=EPOCHS, seeded=True, **options):
    """Fit, and return how often each row was seen in each epoch. Without a seed only that can be compared."""
    if not seeded:
        tf.random.set_seed(None)
    seen = Seen()
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.001), "mse", metrics=[seen])
    note = Note(seen)
    history = model.fit(x, y, epochs=epochs, verbose=0, callbacks=[note], **options).history
    steps = model.optimizer.iterations.numpy()
    numbers = {"rows": note.epochs, "steps": steps}
    return (model, {**numbers, **history}) if seeded else (None, numbers)


def rows():
    return tf.data.Dataset.from_tensor_slices((X, IDS))


@case
def rows_of_arrays():
    return counted(X, IDS, batch_size=BATCH)


@case
def rows_of_arrays_without_a_seed():
    return counted(X, IDS, batch_size=BATCH, seeded=False)


@case
def rows_of_arrays_shuffled_by_batch():
    return counted(X, IDS, batch_size=BATCH, shuffle="batch", seeded=False)


@case
def rows_of_tensors():
    return counted(tf.constant(X), tf.constant(IDS), batch_size=BATCH, seeded=False)


@case
def rows_of_a_validation_split():
    return counted(X, IDS, batch_size=BATCH, validation_split=0.25, seeded=False)


@case
def rows_of_a_dataset():
    return counted(rows().shuffle(ROWS, seed=5).batch(BATCH))


@case
def rows_of_a_dataset_without_a_seed():
    return counted(rows().shuffle(ROWS).batch(BATCH), seeded=False)


@case
def rows_of_a_dataset_shuffled_twice():
    return counted(rows().shuffle(20).batch(4).shuffle(5).unbatch().batch(BATCH), seeded=False)


@case
def rows_of_sampled_datasets():
    parts = [rows().take(30).shuffle(30), rows().skip(30)]
    return counted(tf.data.Dataset.sample_from_datasets(parts).batch(BATCH), seeded=False)


@case
def rows_of_a_dataset_that_is_not_sharded():
    """Each worker reads everything, and in another order: their weights differ from one process's."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return counted(rows().shuffle(ROWS).batch(BATCH).with_options(options), seeded=False)


@case
def rows_of_fewer_batches_than_workers():
    return counted(X[:2], IDS[:2], batch_size=2)


@case
def rows_that_fill_no_batch():
    return counted(X[:LESS], IDS[:LESS], batch_size=BATCH)


@case
def rows_without_the_rest():
    return counted(rows().batch(BATCH, drop_remainder=True))


@case
def rows_of_unknown_number():
    return counted(rows().filter(lambda x, y: y >= 0).batch(BATCH), epochs=3)


@case
def rows_without_end():
    return counted(rows().repeat().batch(BATCH), steps_per_epoch=3)


def generated():
    for first in range(0, ROWS, BATCH):
        yield X[first : first + BATCH], IDS[first : first + BATCH]


@case
def rows_of_a_generator():
    return counted(generated(), epochs=1)


@case
def rows_of_a_generator_dataset():
    spec = (tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None,), tf.int64))
    return counted(tf.data.Dataset.from_generator(generated, output_signature=spec))


class Batches(keras.utils.PyDataset):
    """A dataset of the program's own."""

    def __len__(self):
        return -(-ROWS // BATCH)

    def __getitem__(self, index):
        part = slice(index * BATCH, (index + 1) * BATCH)
        return X[part], IDS[part]


@case
def rows_of_a_pydataset():
    return counted(Batches(), seeded=False)


@case
def rows_of_a_pydataset_in_order():
    return counted(Batches(), shuffle=False)


FILES = 3


def files():
    """Directory of text files: a row's number in each line. Every worker has its own copy, as on a shared disk."""
    directory = os.path.join(tempfile.gettempdir(), f"keras-rows-{os.getpid()}")
    os.makedirs(directory, exist_ok=True)
    for number in range(FILES):
        with open(os.path.join(directory, f"part-{number}.txt"), "w") as file:
            file.writelines(f"{row}\n" for row in np.array_split(IDS, FILES)[number])
    return directory


def from_lines(lines):
    numbers = lines.map(lambda line: tf.strings.to_number(line, tf.int64))
    return numbers.map(lambda row: (tf.gather(X, row), row))


@case
def rows_of_files():
    lines = tf.data.TextLineDataset([os.path.join(files(), f"part-{number}.txt") for number in range(FILES)])
    _, numbers = counted(from_lines(lines).batch(BATCH))
    return None, {"rows": numbers["rows"]}


@case
def rows_of_listed_files():
    lines = tf.data.Dataset.list_files(os.path.join(files(), "part-*.txt")).interleave(tf.data.TextLineDataset)
    _, numbers = counted(from_lines(lines).shuffle(30).batch(BATCH), seeded=False)
    return None, {"rows": numbers["rows"]}


@case
def predictions_of_files():
    lines = tf.data.TextLineDataset([os.path.join(files(), f"part-{number}.txt") for number in range(FILES)])
    model = classifier()
    return model, {"predicted": model.predict(from_lines(lines).batch(BATCH), verbose=0)}


@case
def predictions_of_a_dataset():
    model = classifier()
    return model, {"predicted": model.predict(dataset().map(lambda x, y: x), verbose=0)}


@case
def data_of_a_dataset_and_validation():
    model = classifier()
    history = model.fit(
        dataset(), epochs=EPOCHS, verbose=0, validation_data=dataset(rows=21), validation_steps=1
    ).history
    return model, {**history, "evaluated": model.evaluate(dataset(rows=LESS), verbose=0)}


@case
def data_in_dictionaries():
    inputs = {"a": keras.Input((6,), name="a"), "b": keras.Input((6,), name="b")}
    model = compiled(keras.Model(inputs, layers.Dense(3)(layers.Add()(list(inputs.values())))))
    return fitted(model, {"a": X, "b": 2 * X}, rows=LESS)


@case
def data_of_several_types():
    inputs = [keras.Input((6,)), keras.Input((1,), dtype="uint8"), keras.Input((1,), dtype="bool")]
    both = layers.Concatenate()(
        [inputs[0], *(layers.Lambda(lambda x: tf.cast(x, tf.float32))(each) for each in inputs[1:])]
    )
    model = compiled(keras.Model(inputs, layers.Dense(3)(both)))
    few = [X, (np.abs(X[:, :1]) * 50).astype("uint8"), X[:, 1:2] > 0]
    return fitted(model, few, rows=LESS)


@case
def text():
    words = np.array([["the cat sat", "a dog ran far", "cats and dogs"][row % 3] for row in range(ROWS)])
    vectorize = layers.TextVectorization(
        20, output_sequence_length=4, vocabulary=["the", "cat", "a", "dog", "far", "dogs"]
    )
    model = keras.Sequential(
        [keras.Input((), dtype="string"), vectorize, layers.Embedding(20, 3), layers.Flatten(), layers.Dense(3)]
    )
    return fitted(compiled(model), tf.constant(words), Y)

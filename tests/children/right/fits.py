"""Right programs that call `fit`, as Keras's guides write them, with data made here: `fits.py NAME`."""

import os
import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

NAME = sys.argv[1]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras, layers = tf.keras, tf.keras.layers
keras.utils.set_random_seed(812)
directory = training.checkpoint_dir()
made = np.random.default_rng(0)
ROWS, BATCH = 192, 16
x = made.normal(size=(ROWS, 8)).astype("float32")
y = (x @ made.normal(size=(8, 1))).astype("float32")
labels = made.integers(0, 4, ROWS)
images = made.normal(size=(ROWS, 8, 8, 3)).astype("float32")
words = made.integers(1, 50, (ROWS, 12))
CROSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
PROGRAMS = {}


def program(make):
    """Add a program: a function that compiles a model in the strategy's scope, and returns it with its data."""
    PROGRAMS[make.__name__] = make
    return make


def pairs(inputs, wanted, shuffle=False):
    data = tf.data.Dataset.from_tensor_slices((inputs, wanted))
    return (data.shuffle(ROWS, seed=3) if shuffle else data).batch(BATCH)


def dense(*more, optimizer="adam", loss="mse", **options):
    model = keras.Sequential([keras.Input((8,)), layers.Dense(16, "relu"), *more, layers.Dense(1)])
    model.compile(optimizer, loss, **options)
    return model


def convolutional(*more, before=(), optimizer="adam"):
    stack = [
        keras.Input((8, 8, 3)),
        *before,
        layers.Conv2D(8, 3),
        *more,
        layers.ReLU(),
        layers.GlobalAveragePooling2D(),
    ]
    model = keras.Sequential([*stack, layers.Dense(4)])
    model.compile(optimizer, CROSS, metrics=["accuracy"])
    return model


def textual(*stack):
    model = keras.Sequential([keras.Input((12,)), layers.Embedding(50, 8), *stack, layers.Dense(4)])
    model.compile("adam", CROSS, metrics=["accuracy"])
    return model, pairs(words, labels)


def optimized(name, optimizer):
    def make():
        return dense(optimizer=optimizer()), pairs(x, y)

    PROGRAMS[f"optimizer_{name}"] = make


optimized("sgd", lambda: keras.optimizers.SGD(0.01))
optimized("nesterov", lambda: keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True))
optimized("adamw", lambda: keras.optimizers.AdamW(0.01, weight_decay=0.01))
optimized("rmsprop", lambda: keras.optimizers.RMSprop(0.005))
optimized("nadam", lambda: keras.optimizers.Nadam(0.005))
optimized("adagrad", lambda: keras.optimizers.Adagrad(0.05))
optimized("lion", lambda: keras.optimizers.Lion(0.001))
optimized("clipped", lambda: keras.optimizers.Adam(0.01, clipnorm=0.1))
optimized("clipped_globally", lambda: keras.optimizers.SGD(0.05, global_clipnorm=0.5))
optimized("decayed", lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 4, 0.9)))
optimized(
    "warmed_up",
    lambda: keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.0, 30, warmup_target=0.02, warmup_steps=5)),
)


@program
def normalized_convolution():
    return convolutional(layers.BatchNormalization(synchronized=True), optimizer=keras.optimizers.Adam(0.01)), pairs(
        images, labels
    )


@program
def normalized_convolution_with_momentum():
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    return convolutional(layers.BatchNormalization(synchronized=True), optimizer=optimizer), pairs(images, labels)


@program
def augmenting_layers():
    before = [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1), layers.RandomZoom(0.1)]
    return convolutional(before=before), pairs(images, labels)


@program
def augmented_data():
    augment = keras.Sequential([layers.RandomFlip(), layers.RandomContrast(0.2)])
    data = pairs(images, labels).map(lambda image, label: (augment(image, training=True), label))
    return convolutional(), data


@program
def flipped_by_tensorflow():
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.map(lambda image, label: (tf.image.random_flip_left_right(image), label))
    return convolutional(), data.batch(BATCH)


class Noise(layers.Layer):
    def call(self, inputs, training=False):
        return inputs + 0.1 * tf.random.normal(tf.shape(inputs)) if training else inputs


@program
def noisy_layer():
    return dense(Noise()), pairs(x, y)


@program
def gaussian_noise():
    return dense(layers.GaussianNoise(0.1), layers.GaussianDropout(0.1)), pairs(x, y)


@program
def dropped_out():
    return dense(layers.Dropout(0.3), layers.Dense(16, "selu"), layers.AlphaDropout(0.1)), pairs(x, y, shuffle=True)


@program
def residual():
    inputs = keras.Input((8, 8, 3))
    hidden = layers.Conv2D(8, 3, padding="same")(inputs)
    again = layers.BatchNormalization(synchronized=True)(layers.Conv2D(8, 3, padding="same")(layers.ReLU()(hidden)))
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalMaxPooling2D()(layers.add([hidden, again]))))
    model.compile("rmsprop", CROSS)
    return model, pairs(images, labels)


@program
def separable():
    return convolutional(layers.SeparableConv2D(8, 3), layers.SpatialDropout2D(0.2)), pairs(images, labels)


@program
def lstm():
    return textual(layers.LSTM(8))


@program
def gru_that_drops():
    return textual(layers.GRU(8, dropout=0.2, recurrent_dropout=0.2))


@program
def bidirectional():
    return textual(layers.Bidirectional(layers.SimpleRNN(6, return_sequences=True)), layers.GlobalMaxPooling1D())


@program
def transformer():
    inputs = keras.Input((12,))
    hidden = layers.Embedding(50, 8)(inputs)
    seen = layers.MultiHeadAttention(2, 4, dropout=0.1)(hidden, hidden)
    hidden = layers.LayerNormalization()(hidden + layers.Dropout(0.1)(seen))
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling1D()(hidden)))
    model.compile(keras.optimizers.Adam(0.005), CROSS)
    return model, pairs(words, labels)


@program
def two_inputs_and_outputs():
    first, second = keras.Input((8,), name="first"), keras.Input((12,), name="second")
    hidden = layers.concatenate([layers.Dense(8, "relu")(first), layers.Flatten()(layers.Embedding(50, 2)(second))])
    outputs = {"value": layers.Dense(1, name="value")(hidden), "label": layers.Dense(4, name="label")(hidden)}
    model = keras.Model({"first": first, "second": second}, outputs)
    model.compile("adam", {"value": "mse", "label": CROSS}, loss_weights={"value": 0.5, "label": 1.0})
    return model, pairs({"first": x, "second": words}, {"value": y, "label": labels})


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.drop, self.last = layers.Dense(8, "gelu"), layers.Dropout(0.2), layers.Dense(1)

    def call(self, inputs, training=False):
        return self.last(self.drop(self.hidden(inputs), training=training))


@program
def subclassed():
    model = Subclassed()
    model.compile("adam", keras.losses.Huber())
    return model, pairs(x, y)


@program
def own_loss_function():
    def loss(wanted, found):
        return tf.reduce_mean(tf.math.log(tf.cosh(found - wanted)), axis=-1)

    return dense(loss=loss), pairs(x, y)


@program
def weighted_rows():
    weights = made.uniform(0.5, 2.0, ROWS).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(BATCH)
    return dense(weighted_metrics=["mae"]), data


@program
def regularized():
    penalty = keras.regularizers.L1L2(1e-4, 1e-3)
    return dense(layers.Dense(8, kernel_regularizer=penalty, bias_regularizer=penalty)), pairs(x, y)


@program
def several_steps_per_execution():
    return dense(steps_per_execution=4), pairs(x, y)


@program
def arrays():
    return dense(), None


@program
def mixed_bfloat16():
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    return dense(), pairs(x, y)


@program
def autoencoder():
    model = keras.Sequential([keras.Input((8,)), layers.Dense(3, "tanh"), layers.Dense(8)])
    model.compile(keras.optimizers.Adam(0.01), "mae")
    return model, pairs(x, x)


class Sampling(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(7)

    def call(self, inputs):
        mean, log_variance = inputs
        return mean + tf.exp(0.5 * log_variance) * keras.random.normal(tf.shape(mean), seed=self.seeds)


@program
def variational_autoencoder():
    inputs = keras.Input((8,))
    hidden = layers.Dense(8, "relu")(inputs)
    sample = Sampling()([layers.Dense(2)(hidden), layers.Dense(2)(hidden)])
    model = keras.Model(inputs, layers.Dense(8)(sample))
    model.compile("adam", "mse")
    return model, pairs(x, x)


@program
def frozen_layers():
    model = dense(layers.Dense(8, "relu", name="learned"), layers.BatchNormalization(name="fixed"))
    for layer in model.layers:
        layer.trainable = layer.name not in ("fixed", "dense")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model, pairs(x, y)


@program
def adapted():
    normalization = layers.Normalization()
    normalization.adapt(x)
    model = keras.Sequential([keras.Input((8,)), normalization, layers.Dense(8, "relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    return model, pairs(x, y)


@program
def group_normalization():
    return convolutional(layers.GroupNormalization(4), layers.Activation("silu")), pairs(images, labels)


@program
def scaled_with_the_workers():
    workers = strategy.num_replicas_in_sync
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8 * workers, drop_remainder=True)
    return dense(optimizer=keras.optimizers.SGD(0.005 * workers)), data


@program
def uneven_last_batch():
    data = tf.data.Dataset.from_tensor_slices((x[:185], y[:185])).batch(BATCH)
    return dense(), data


@program
def repeated_steps_per_epoch():
    return dense(), pairs(x, y).repeat()


@program
def metrics_of_all_kinds():
    model = keras.Sequential([keras.Input((8,)), layers.Dense(8, "relu"), layers.Dense(1, "sigmoid")])
    metrics = [keras.metrics.AUC(), keras.metrics.Precision(), keras.metrics.BinaryAccuracy()]
    model.compile("adam", "binary_crossentropy", metrics=metrics)
    return model, pairs(x, (y > 0).astype("float32"))


class Steps(keras.Model):
    def train_step(self, data):
        inputs, wanted = data
        with tf.GradientTape() as tape:
            found = self(inputs, training=True)
            loss = self.compute_loss(y=wanted, y_pred=found)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(wanted, found)
        return {metric.name: metric.result() for metric in self.metrics}


@program
def own_train_step():
    inputs = keras.Input((8,))
    model = Steps(inputs, layers.Dense(1)(layers.Dense(16, "relu")(inputs)))
    model.compile("adam", "mse", metrics=["mae"])
    return model, pairs(x, y)


CALLBACKS = {
    "stopped_early": lambda: [keras.callbacks.EarlyStopping("loss", patience=4, restore_best_weights=True)],
    "best_model_kept": lambda: [
        keras.callbacks.ModelCheckpoint(os.path.join(directory, "best.keras"), "loss", save_best_only=True)
    ],
    "weights_of_each_epoch": lambda: [
        keras.callbacks.ModelCheckpoint(os.path.join(directory, "{epoch:02d}.weights.h5"), save_weights_only=True)
    ],
    "rate_scheduled": lambda: [keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 * 0.8**epoch)],
    "logged": lambda: [
        keras.callbacks.CSVLogger(os.path.join(directory, "log.csv"), append=True),
        keras.callbacks.TensorBoard(os.path.join(directory, "board")),
    ],
    "backed_up_by_keras": lambda: [keras.callbacks.BackupAndRestore(os.path.join(directory, "backup"))],
}
# Keras's backup does not hold the state of dropout, which the exam tells.
DROPOUT = [] if NAME == "backed_up_by_keras" else [layers.Dropout(0.1)]
for name in CALLBACKS:
    PROGRAMS[name] = lambda: (dense(*DROPOUT, optimizer=keras.optimizers.Adam(0.01)), pairs(x, y))


def main():
    with strategy.scope():
        model, data = PROGRAMS[NAME]()
    callbacks = CALLBACKS[NAME]() if NAME in CALLBACKS else []
    if NAME != "backed_up_by_keras":
        callbacks.append(training.Backup(every=5))
    steps = 12 if NAME == "repeated_steps_per_epoch" else None
    options = {"epochs": 3, "verbose": 0, "callbacks": callbacks, "steps_per_epoch": steps}
    if data is None:
        model.fit(x, y, batch_size=BATCH, validation_data=(x[:32], y[:32]), **options)
    else:
        model.fit(data, **options)


if __name__ == "__main__":
    main()

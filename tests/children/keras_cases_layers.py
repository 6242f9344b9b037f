"""Layers that look at a whole batch, keep state, or draw at random."""

import tensorflow as tf
from keras_cases import IMAGES, LESS, NUMBERS, WORDS, X, Y, classifier, compiled, fitted, keras, layers, several, table

CASES, case = table()


def with_layers(*made, rows=LESS, **options):
    return fitted(classifier(*made, **options), rows=rows)


several(
    CASES,
    "layer",
    lambda make: with_layers(layers.Dense(5), make()),
    synchronized=lambda: layers.BatchNormalization(synchronized=True, momentum=0.8),
    layer_normalization=layers.LayerNormalization,
    group_normalization=lambda: layers.GroupNormalization(5),
    unit_normalization=layers.UnitNormalization,
    spectral=lambda: layers.SpectralNormalization(layers.Dense(4)),
)


@case
def layer_synchronized_after_a_logarithm():
    """Of rows that are all positive: a row of zeros would make the statistics infinite for good."""
    positive = tf.abs(X) + 0.5
    logarithm = layers.Lambda(lambda x: tf.math.log(x))
    model = classifier(logarithm, layers.BatchNormalization(synchronized=True, momentum=0.8))
    return fitted(model, positive.numpy(), rows=LESS)


@case
def layer_not_synchronized_after_a_logarithm():
    """The same, where each replica has statistics of its own rows."""
    logarithm = layers.Lambda(lambda x: tf.math.log(x))
    model = classifier(logarithm, layers.BatchNormalization(momentum=0.8))
    return fitted(model, (tf.abs(X) + 0.5).numpy(), rows=LESS)


class Least(layers.Layer):
    """Keeps the smallest number that it has seen; each replica its own."""

    def build(self, shape):
        self.least = self.add_weight(name="least", shape=(), initializer="ones", trainable=False)

    def call(self, inputs, training=False):
        if training:
            context = tf.distribute.get_replica_context()
            least = tf.reduce_min(inputs)
            if context is not None and context.num_replicas_in_sync > 1:
                least = tf.reduce_min(context.all_gather(least[None], axis=0))
            self.least.assign(tf.minimum(self.least, least))
        return inputs


@case
def layer_that_keeps_a_minimum():
    inputs = keras.Input((6,))
    model = compiled(keras.Model(inputs, layers.Dense(3)(Least()(inputs))))
    return fitted(model, tf.abs(X).numpy() + 0.5, rows=LESS)


@case
def layers_of_convolutions():
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )
    return fitted(compiled(model), IMAGES, rows=LESS)


@case
def layers_of_attention():
    words = keras.Input((7,), dtype="int32")
    known = layers.Embedding(20, 4)(words)
    seen = layers.GlobalAveragePooling1D()(layers.MultiHeadAttention(2, 3)(known, known))
    return fitted(compiled(keras.Model(words, layers.Dense(3)(seen))), WORDS, rows=LESS)


@case
def layers_that_recur():
    words = keras.Input((7,), dtype="int32")
    known = layers.Embedding(20, 4, mask_zero=True)(words)
    seen = layers.Bidirectional(layers.GRU(3))(known)
    return fitted(compiled(keras.Model(words, layers.Dense(3)(seen))), WORDS, rows=LESS)


@case
def layer_that_was_adapted():
    normalization = layers.Normalization()
    normalization.adapt(X)
    return with_layers(normalization, layers.Dense(4))


several(
    CASES,
    "layer_of",
    lambda make: with_layers(layers.Dense(16), make()),
    dropout=lambda: layers.Dropout(0.5),
    alpha_dropout=lambda: layers.AlphaDropout(0.3),
    gaussian_dropout=lambda: layers.GaussianDropout(0.3),
    gaussian_noise=lambda: layers.GaussianNoise(0.3),
    dropout_alike_for_all_rows=lambda: layers.Dropout(0.5, noise_shape=(1, 16)),
)


@case
def layer_of_dropout_eagerly():
    return with_layers(layers.Dense(16), layers.Dropout(0.5), rows=48, run_eagerly=True)


@case
def layer_of_dropout_with_rows_twice():
    """In each row's two halves, as rows of their own."""
    inputs = keras.Input((6,))
    halves = layers.Lambda(lambda x: tf.reshape(x, (-1, 3)))(inputs)
    halves = layers.Dropout(0.4)(layers.Dense(4, "tanh")(halves))
    outputs = layers.Lambda(lambda x: tf.reshape(x, (-1, 8)))(halves)
    return fitted(compiled(keras.Model(inputs, layers.Dense(3)(outputs))), rows=LESS)


@case
def layers_of_dropout_in_attention_and_recurrence():
    words = keras.Input((7,), dtype="int32")
    known = layers.SpatialDropout1D(0.2)(layers.Embedding(20, 8)(words))
    seen = layers.MultiHeadAttention(2, 4, dropout=0.3)(known, known)
    last = layers.GRU(4, dropout=0.3, recurrent_dropout=0.3)(seen)
    return fitted(compiled(keras.Model(words, layers.Dense(3)(last))), WORDS, rows=LESS)


@case
def layers_of_random_images():
    inputs = keras.Input((6, 6, 2))
    turned = layers.RandomRotation(0.2)(layers.RandomFlip()(inputs))
    moved = layers.RandomContrast(0.3)(layers.RandomTranslation(0.2, 0.2)(turned))
    outputs = layers.Dense(3)(layers.Flatten()(moved))
    return fitted(compiled(keras.Model(inputs, outputs)), IMAGES, rows=LESS)


class Sampling(layers.Layer):
    """Draws around what it gets, as the encoder of a variational autoencoder does."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw
        self.generator = keras.random.SeedGenerator(7)

    def call(self, inputs):
        shape = keras.ops.shape(inputs)
        return inputs + 0.5 * self.draw((shape[0], shape[1]), self.generator)


@tf.function
def drawn_in_a_function(shape, generator):
    return tf.random.stateless_uniform(shape, seed=(3, 4))


several(
    CASES,
    "layer_that_samples",
    lambda draw: with_layers(layers.Dense(5), Sampling(draw)),
    with_keras=lambda shape, generator: keras.random.normal(shape, seed=generator),
    whole_numbers=lambda shape, generator: tf.cast(keras.random.randint(shape, 0, 9, seed=generator), "float32"),
    from_a_tail=lambda shape, generator: keras.random.truncated_normal(shape, seed=generator),
    in_a_function=drawn_in_a_function,
)
several(
    CASES,
    "layer_that_samples_with_tensorflow",
    lambda draw: with_layers(layers.Dense(5), Sampling(draw), rows=48),
    a_normal_number=lambda shape, generator: tf.random.normal(shape),
    a_uniform_number=lambda shape, generator: tf.random.uniform(shape, seed=5),
)


@case
def layer_that_samples_with_tensorflow_until_a_short_batch():
    return with_layers(layers.Dense(5), Sampling(lambda shape, generator: tf.random.normal(shape)), rows=LESS)


@case
def layer_not_synchronized():
    return with_layers(layers.Dense(5), layers.BatchNormalization(momentum=0.8), rows=48)


class Positions(layers.Layer):
    """Multiplies each position by a vector of its own, which is the same for all rows."""

    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(6, 2)

    def call(self, inputs):
        return inputs * self.table(tf.range(tf.shape(inputs)[1]))


def of_positions(optimizer):
    inputs = keras.Input((6, 2))
    outputs = layers.Dense(3)(layers.Flatten()(Positions()(inputs)))
    return fitted(compiled(keras.Model(inputs, outputs), optimizer), IMAGES[:, :, 0])


def of_words(optimizer):
    words = keras.Input((7,), dtype="int32")
    known = layers.GlobalAveragePooling1D()(layers.Embedding(20, 4)(words))
    return fitted(compiled(keras.Model(words, layers.Dense(3)(known)), optimizer), WORDS)


OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "clipped_adam": lambda: keras.optimizers.Adam(0.01, clipnorm=0.05),
    "momentum_clipped_together": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.05),
    "accumulated_adam": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
}
several(CASES, "layer_of_positions", lambda make: of_positions(make()), **OPTIMIZERS)
several(CASES, "layer_of_words", lambda make: of_words(make()), **OPTIMIZERS)


def of_sparse_rows(optimizer):
    inputs = keras.Input((6,), sparse=True)
    model = compiled(keras.Model(inputs, layers.Dense(3)(inputs)), optimizer)
    rows = tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense(tf.where(X > 0.3, X, 0)))
    return model, model.fit(
        tf.data.Dataset.zip((rows, tf.data.Dataset.from_tensor_slices(Y))).batch(16), epochs=2, verbose=0
    ).history


several(
    CASES,
    "layer_of_sparse_rows",
    lambda name: of_sparse_rows(OPTIMIZERS[name]()),
    **{name: name for name in ("adam", "adagrad", "clipped_adam")},
)


class Endpoint(layers.Layer):
    """Computes the loss itself, with one of Keras's, and adds it to the model's."""

    def __init__(self):
        super().__init__()
        self.error = keras.losses.MeanSquaredError()

    def call(self, numbers, outputs):
        self.add_loss(self.error(numbers, outputs))
        return outputs


@case
def layer_with_a_loss():
    inputs, numbers = keras.Input((6,), name="inputs"), keras.Input((1,), name="numbers")
    model = keras.Model({"inputs": inputs, "numbers": numbers}, Endpoint()(numbers, layers.Dense(1)(inputs)))
    model.compile(keras.optimizers.SGD(0.05))
    return fitted(model, {"inputs": X, "numbers": NUMBERS}, None)


class Adds(layers.Layer):
    """Adds the sum over the rows to the loss, which is no mean over rows."""

    def call(self, inputs):
        self.add_loss(0.001 * tf.reduce_sum(tf.square(inputs)))
        return inputs


@case
def layer_that_adds_a_sum_to_the_loss():
    return with_layers(layers.Dense(5), Adds())


class Running(layers.Layer):
    """Keeps a mean of what it has seen, in a way that Keras does not know."""

    def __init__(self, aggregation="none"):
        super().__init__()
        options = {} if aggregation == "none" else {"aggregation": aggregation}
        self.seen = self.add_weight(name="seen", shape=(5,), initializer="zeros", trainable=False, **options)

    def call(self, inputs, training=False):
        if training:
            self.seen.assign(0.9 * self.seen + 0.1 * tf.reduce_mean(inputs, axis=0))
        return inputs - self.seen


@case
def layer_that_averages_its_own_rows():
    return with_layers(layers.Dense(5), Running(), rows=48)


@case
def layer_that_averages_all_rows():
    return fitted(classifier(layers.Dense(5), Running("mean")), rows=48, batch_size=12)

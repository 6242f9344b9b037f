"""Layers that look at a whole batch, keep state, or draw at random."""

import tensorflow as tf
from keras_cases import IMAGES, LESS, WORDS, X, classifier, compiled, fitted, keras, layers, several, table

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


@case
def layer_of_dropout():
    return with_layers(layers.Dense(16), layers.Dropout(0.5), rows=48)


@case
def layer_not_synchronized():
    return with_layers(layers.Dense(5), layers.BatchNormalization(momentum=0.8), rows=48)

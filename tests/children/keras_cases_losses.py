"""Losses: Keras's, a program's own, their reductions, weights and masks, and what models and layers add."""

import tensorflow as tf
from keras_cases import (
    LESS,
    NUMBERS,
    ONE_HOT,
    SIGNS,
    TAGS,
    WEIGHTS,
    WORDS,
    X,
    Y,
    classifier,
    compiled,
    fitted,
    keras,
    layers,
    regression,
    several,
    table,
)

CASES, case = table()


def of_numbers(loss):
    return fitted(regression(loss=loss, optimizer=keras.optimizers.SGD(0.01)), y=NUMBERS)


def of_signs(loss):
    return fitted(regression("sigmoid", loss=loss, metrics=["accuracy"]), y=SIGNS)


def of_classes(loss):
    return fitted(
        classifier(layers.Dense(4), layers.Softmax(), loss=loss, optimizer=keras.optimizers.SGD(0.02)), y=ONE_HOT
    )


several(
    CASES,
    "loss",
    of_numbers,
    **{name: name for name in ("mse", "mae", "mape", "msle", "log_cosh", "huber")},
    of_rows=lambda y, p: tf.reduce_mean(tf.square(y - p), axis=-1),
    one_mean=lambda y, p: tf.reduce_mean(tf.square(y - p)),
    one_sum=lambda y, p: 0.05 * tf.reduce_sum(tf.square(y - p)),
    one_correlation=lambda y, p: -tf.reduce_sum(y * p) / tf.norm(y) / (tf.norm(p) + 0.1),
    summed=keras.losses.MeanSquaredError(reduction="sum"),
    mean=keras.losses.MeanSquaredError(reduction="mean"),
)
several(
    CASES,
    "loss",
    of_signs,
    binary=keras.losses.BinaryCrossentropy(label_smoothing=0.1),
    focal=keras.losses.BinaryFocalCrossentropy(),
    hinge="hinge",
    poisson="poisson",
    dice=keras.losses.Dice(),
    tversky=keras.losses.Tversky(),
)
several(
    CASES,
    "loss",
    of_classes,
    kl="kl_divergence",
    categorical="categorical_crossentropy",
    cosine_similarity="cosine_similarity",
)


class Ratio(keras.losses.Loss):
    """A loss of the program's own that is no mean over rows."""

    def call(self, y_true, y_pred):
        return tf.reduce_sum(tf.square(y_true - y_pred)) / tf.reduce_sum(tf.square(y_true))


@case
def loss_of_a_class_of_its_own():
    return of_numbers(Ratio())


class Contrast(keras.losses.Loss):
    """Compares each row with all others, in a `__call__` of its own."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        apart = tf.reduce_sum(tf.square(y_pred[:, None] - y_pred[None]), axis=-1)
        same = tf.cast(tf.equal(y_true[:, None], y_true[None]), apart.dtype)
        return tf.reduce_mean(same * apart + (1 - same) * tf.maximum(1 - apart, 0))


@case
def loss_with_a_call_of_its_own():
    return fitted(classifier(loss=Contrast(), metrics=[]))


@case
def loss_of_each_row_from_all_rows():
    def loss(y_true, y_pred):
        return tf.reduce_mean(tf.square(y_pred - tf.reduce_mean(y_pred, axis=0)), axis=-1)

    return of_numbers(loss)


@case
def loss_of_one_number_with_weights():
    return fitted(regression(loss=Ratio()), y=NUMBERS, sample_weight=WEIGHTS)


@case
def loss_of_one_number_where_a_worker_has_no_row():
    return fitted(regression(loss=Ratio()), y=NUMBERS, rows=LESS)


def weighted(reduction):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
    return fitted(classifier(loss=loss, weighted_metrics=["accuracy"]), sample_weight=WEIGHTS, rows=LESS)


several(CASES, "weights", weighted, by_rows="sum_over_batch_size", summed="sum", by_weights="mean_with_sample_weight")


@case
def class_weights():
    return fitted(classifier(), class_weight={0: 0.5, 1: 2.0, 2: 1.0})


def tagger(mask=True, **options):
    words = keras.Input((7,), dtype="int32")
    known = layers.Embedding(20, 4, mask_zero=mask)(words)
    return compiled(keras.Model(words, layers.Dense(3)(layers.LSTM(3, return_sequences=True)(known))), **options)


@case
def mask_of_words():
    return fitted(tagger(), WORDS, TAGS)


@case
def mask_of_words_where_a_worker_has_no_row():
    return fitted(tagger(), WORDS, TAGS, rows=LESS)


@case
def mask_and_weights():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    return fitted(tagger(loss=loss), WORDS, TAGS, sample_weight=WEIGHTS[:, None])


@case
def weights_of_words():
    return fitted(tagger(mask=False), WORDS, TAGS, sample_weight=(WORDS > 0).astype("float32"))


@case
def ignored_class():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    return fitted(tagger(mask=False, loss=loss), WORDS, TAGS)


@case
def regularizers():
    hidden = layers.Dense(5, kernel_regularizer="l2", bias_regularizer="l1", activity_regularizer="l2")
    return fitted(classifier(hidden), rows=LESS)


class Penalty(layers.Layer):
    """Adds the mean of what it sees to the loss."""

    def call(self, inputs):
        self.add_loss(0.1 * tf.reduce_mean(tf.square(inputs)))
        return inputs


@case
def loss_that_a_layer_adds():
    return fitted(classifier(layers.Dense(5), Penalty()))


class Total(keras.Model):
    """A model that computes its total loss itself."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return tf.reduce_mean(tf.square(y - y_pred))


class More(keras.Model):
    """A model that adds to Keras's loss."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        return loss + 0.1 * tf.reduce_mean(tf.square(y_pred))


def own_total(kind):
    inputs = keras.Input((6,))
    model = compiled(kind(inputs, layers.Dense(1)(inputs)), loss="mse", metrics=["mae"])
    return fitted(model, y=NUMBERS)


several(CASES, "compute_loss", own_total, alone=Total, and_more=More)


@case
def losses_of_several_outputs():
    numbers, words = keras.Input((6,), name="numbers"), keras.Input((7,), dtype="int32", name="words")
    both = layers.Concatenate()(
        [layers.Dense(4)(numbers), layers.GlobalAveragePooling1D()(layers.Embedding(20, 4)(words))]
    )
    outputs = {"kind": layers.Dense(3, name="kind")(both), "size": layers.Dense(1, name="size")(both)}
    losses = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
    more = {"loss_weights": {"kind": 1.0, "size": 0.3}, "metrics": {"kind": ["accuracy"], "size": ["mae"]}}
    model = compiled(keras.Model({"numbers": numbers, "words": words}, outputs), loss=losses, **more)
    model, history = fitted(model, {"numbers": X, "words": WORDS}, {"kind": Y, "size": NUMBERS})
    predicted = model.predict({"numbers": X, "words": WORDS}, verbose=0)
    return model, {**history, **{f"predicted {name}": value for name, value in predicted.items()}}

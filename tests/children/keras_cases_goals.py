"""Losses, metrics and layers that look at a whole batch: what a row contributes depends on the others."""

import numpy as np
import tensorflow as tf
from keras_cases import (
    BATCH,
    LESS,
    NUMBERS,
    ROWS,
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
    table,
)

CASES, case = table()
ops = keras.ops
metrics = keras.metrics
HOLES = np.where(np.random.default_rng(3).random((ROWS, 3)) < 0.4, np.nan, X[:, :3])  # some are missing


def of_numbers(loss, y=NUMBERS, units=1, rows=LESS, rate=0.05):
    return fitted(regression(units=units, loss=loss, metrics=[], optimizer=keras.optimizers.SGD(rate)), y=y, rows=rows)


def of_classes(loss, rows=ROWS, rate=0.1):
    return fitted(classifier(loss=loss, metrics=[], optimizer=keras.optimizers.SGD(rate)), rows=rows)


@case
def loss_that_is_an_average_loss():
    """Of all rows, by their number, in a function that is given to compile."""

    def loss(y, y_pred):
        return tf.nn.compute_average_loss(tf.reduce_mean(tf.square(y - y_pred), axis=-1), global_batch_size=BATCH)

    return of_numbers(loss)


@case
def loss_behind_a_boolean_mask():
    def loss(y, y_pred):
        known = y > -1.0
        return tf.reduce_mean(tf.abs(tf.boolean_mask(y, known) - tf.boolean_mask(y_pred, known)))

    return of_numbers(loss, rows=ROWS)


@case
def loss_where_targets_are_missing():
    def loss(y, y_pred):
        known = tf.math.is_finite(y)
        error = tf.where(known, y_pred - tf.where(known, y, 0.0), 0.0)
        return tf.reduce_sum(error**2) / tf.maximum(tf.reduce_sum(tf.cast(known, tf.float32)), 1.0)

    return of_numbers(loss, HOLES.astype("float32"), 3)


@case
def ignored_class_where_a_worker_has_no_row():
    words = keras.Input((7,), dtype="int32")
    model = keras.Model(words, layers.Dense(3)(layers.Embedding(20, 4)(words)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    return fitted(compiled(model, loss=loss, metrics=[]), WORDS, np.where(WORDS > 5, TAGS, -1), rows=LESS)


@case
def loss_of_balanced_classes():
    """The mean of each class's mean, of the rows that this batch has of it."""

    def loss(y, y_pred):
        y = tf.cast(tf.reshape(y, [-1]), tf.int32)
        weights = tf.math.divide_no_nan(1.0, tf.reduce_sum(tf.one_hot(y, 3), axis=0))
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(y, y_pred)
        return tf.reduce_sum(entropy * tf.gather(weights, y)) / 3.0

    return of_classes(loss, LESS)


@case
def loss_of_triplets():
    """Of all triplets of the batch."""

    def loss(y, y_pred):
        y, z = tf.reshape(y, [-1]), tf.math.l2_normalize(y_pred, axis=-1)
        apart = 2.0 - 2.0 * tf.matmul(z, z, transpose_b=True)
        same = tf.cast(tf.equal(y[:, None], y[None]), tf.float32)
        triplets = (same - tf.eye(tf.shape(y)[0]))[:, :, None] * (1.0 - same)[:, None, :]
        losses = tf.maximum(apart[:, :, None] - apart[:, None, :] + 0.5, 0.0) * triplets
        return tf.reduce_sum(losses) / (tf.reduce_sum(tf.cast(losses > 1e-16, tf.float32)) + 1e-16)

    return of_classes(loss)


@case
def loss_of_circles():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, layers.UnitNormalization()(layers.Dense(4)(inputs)))
    loss = keras.losses.Circle(gamma=8.0, margin=0.3)
    return fitted(compiled(model, keras.optimizers.SGD(0.01), loss=loss, metrics=[]))


@case
def loss_of_survival():
    """Cox's: each row is compared with those of the batch that lived longer."""

    def loss(y, y_pred):
        times, seen, risks = y[:, 0], y[:, 1], tf.reshape(y_pred, [-1])
        longer = tf.cast(times[None] >= times[:, None], tf.float32)
        among = tf.math.log(tf.reduce_sum(tf.exp(risks)[None] * longer, axis=1))
        return -tf.reduce_sum((risks - among) * seen) / (tf.reduce_sum(seen) + 1e-7)

    return of_numbers(loss, np.concatenate([np.exp(0.1 * NUMBERS), SIGNS], axis=1), rows=ROWS)


@case
def loss_of_a_root():
    class Root(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return ops.sqrt(ops.mean(ops.square(y_true - y_pred)) + 1e-6)

    return of_numbers(Root())


@case
def loss_of_concordance():
    def loss(y, y_pred):
        mean, predicted = ops.mean(y), ops.mean(y_pred)
        together = ops.mean((y - mean) * (y_pred - predicted))
        return 1.0 - 2.0 * together / (ops.var(y) + ops.var(y_pred) + (mean - predicted) ** 2 + 1e-6)

    return of_numbers(loss, rate=0.2)


@case
def loss_of_weights_among_the_targets():
    """A sum by a sum: of what is weighted, and of the weights."""

    def loss(y, y_pred):
        weights = y[:, 1:]
        return ops.sum(weights * ops.square(y[:, :1] - y_pred)) / ops.sum(weights)

    return of_numbers(loss, np.concatenate([NUMBERS, WEIGHTS[:, None]], axis=1))


@case
def losses_of_quantiles():
    """Three outputs, each with a function of one number."""

    def of(share):
        return lambda y, y_pred: ops.mean(ops.maximum(share * (y - y_pred), (share - 1) * (y - y_pred)))

    inputs = keras.Input((6,))
    hidden = layers.Dense(5, "tanh")(inputs)
    model = keras.Model(inputs, [layers.Dense(1, name=name)(hidden) for name in ("low", "middle", "high")])
    compiled(model, loss=[of(0.1), of(0.5), of(0.9)], loss_weights=[1.0, 2.0, 1.0], metrics=None)
    return fitted(model, y=(NUMBERS,) * 3, rows=LESS)


def measured(model, y):
    """Fit with metrics, and evaluate."""
    model, history = fitted(model, y=y, rows=LESS, validation_data=(X[:21], y[:21]))
    return model, {**history, "evaluated": model.evaluate(X, y, batch_size=BATCH, verbose=0)}


@case
def metrics_of_correlation():
    pair = np.concatenate([NUMBERS, X[:, :1]], axis=1)
    of_rows = [metrics.PearsonCorrelation(name="pearson"), metrics.ConcordanceCorrelation(name="concordance")]
    return measured(regression(units=2, metrics=of_rows, optimizer=keras.optimizers.SGD(0.05)), pair)


@case
def metric_functions_of_whole_batches():
    def root(y, y_pred):
        return ops.sqrt(ops.mean(ops.square(y - y_pred)))

    def most(y, y_pred):
        return tf.reduce_max(tf.abs(y - y_pred))

    def near(y, y_pred):
        return ops.mean(ops.cast(ops.abs(y - y_pred) < 0.5, "float32"))

    return measured(regression(metrics=[root, most, near], optimizer=keras.optimizers.SGD(0.05)), NUMBERS)


class Confusion(metrics.Metric):
    """The mean of the classes' F1, of a matrix of what was taken for what."""

    def __init__(self, name="confusion"):
        super().__init__(name=name)
        self.matrix = self.add_variable(shape=(3, 3), initializer="zeros", name="matrix")

    def update_state(self, y_true, y_pred, sample_weight=None):
        taken = tf.argmax(y_pred, axis=-1)
        self.matrix.assign_add(tf.math.confusion_matrix(tf.reshape(y_true, [-1]), taken, 3, dtype=tf.float32))

    def result(self):
        of_both = tf.reduce_sum(self.matrix, axis=0) + tf.reduce_sum(self.matrix, axis=1)
        return tf.reduce_mean(2 * tf.linalg.diag_part(self.matrix) / (of_both + 1e-7))


@case
def metric_class_of_confusion():
    return measured(classifier(metrics=[Confusion()]), Y)


class Centered(layers.Layer):
    """Subtracts the batch's mean."""

    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True)


@case
def layer_that_centers_the_batch():
    return fitted(classifier(layers.Dense(5, "tanh"), Centered()), rows=LESS)


class Experts(layers.Layer):
    """A mixture of experts, with a loss for what the batch has of each: a product of two means."""

    def build(self, shape):
        self.experts = self.add_weight(shape=(3, shape[-1], 4), name="experts")
        self.router = self.add_weight(shape=(shape[-1], 3), name="router")

    def call(self, inputs):
        shares = ops.softmax(ops.matmul(inputs, self.router))
        chosen = ops.one_hot(ops.argmax(shares, axis=-1), 3)
        self.add_loss(0.3 * ops.sum(ops.mean(shares, axis=0) * ops.mean(chosen, axis=0)))
        return ops.einsum("bd,edh,be->bh", inputs, self.experts, shares)


@case
def layer_that_balances_experts():
    return fitted(classifier(Experts()), rows=LESS)


@case
def layer_synchronized_behind_a_mask():
    """The statistics are of the words alone, of which each row has its own number."""
    words = keras.Input((7,), dtype="int32")
    known = layers.Embedding(20, 4, mask_zero=True)(words)
    normalized = layers.BatchNormalization(synchronized=True, momentum=0.8)(known)
    model = keras.Model(words, layers.Dense(3)(layers.GlobalAveragePooling1D()(normalized)))
    return fitted(compiled(model), WORDS, rows=LESS)


class Statistics(layers.Layer):
    """Keeps a maximum, a mean and a number of rows, and scales by them."""

    def build(self, shape):
        self.most = self.add_weight(shape=(shape[-1],), initializer="ones", trainable=False, name="most")
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False, name="mean")
        self.rows = self.add_weight(shape=(), initializer="zeros", trainable=False, name="rows")

    def call(self, inputs, training=False):
        if training:
            self.most.assign(ops.maximum(self.most, ops.max(ops.abs(inputs), axis=0)))
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(inputs, axis=0))
            self.rows.assign_add(ops.cast(ops.shape(inputs)[0], "float32"))
        return (inputs - self.mean) / self.most


@case
def layer_that_keeps_statistics():
    return fitted(classifier(Statistics(), layers.Dense(5, "tanh")), rows=LESS)


@case
def layers_of_twins_that_are_compared():
    """One network sees two inputs, and the loss is of how far apart they are."""

    def loss(y, apart):
        return ops.mean(y * ops.square(apart) + (1.0 - y) * ops.square(ops.maximum(1.0 - apart, 0.0)))

    one, other, tower = keras.Input((6,)), keras.Input((6,)), layers.Dense(3, "tanh")
    squares = layers.Lambda(lambda both: ops.sum(ops.square(both[0] - both[1]), axis=-1, keepdims=True))
    apart = layers.Lambda(lambda square: ops.sqrt(square + 1e-6))(squares([tower(one), tower(other)]))
    return fitted(compiled(keras.Model([one, other], apart), loss=loss, metrics=[]), (X, X[::-1]), SIGNS, rows=LESS)


@case
def one_batch_at_a_time_with_a_summed_loss():
    """Every worker gives the whole batch; weights of rows and of classes."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    model = classifier(loss=loss, optimizer=keras.optimizers.SGD(0.02))
    parts = [slice(0, 16), slice(16, 32), slice(32, 33)]
    told = [model.train_on_batch(X[part], Y[part], sample_weight=WEIGHTS[part]) for part in parts]
    told.append(model.train_on_batch(X[:9], Y[:9], class_weight={0: 1.0, 1: 2.0, 2: 0.5}))
    return model, {"told": told, "tested": model.test_on_batch(X, Y), "predicted": model.predict_on_batch(X[:7])}


class Layerwise(keras.optimizers.Optimizer):
    """An optimizer of the program's own: centered gradients, and steps by the norms of weights and gradients."""

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.momenta = self.add_optimizer_variables(variables, "momentum")

    def update_step(self, gradient, variable, learning_rate):
        momentum = self.momenta[self._get_variable_index(variable)]
        trust = ops.norm(ops.convert_to_tensor(variable)) / (ops.norm(gradient) + 1e-3) + 0.1
        if len(variable.shape) > 1:
            gradient = gradient - ops.mean(gradient, axis=0, keepdims=True)
        self.assign(momentum, 0.9 * momentum + learning_rate * ops.minimum(trust, 1.0) * gradient)
        self.assign_sub(variable, momentum)


@case
def optimizer_of_its_own():
    return fitted(classifier(optimizer=Layerwise(learning_rate=0.1)), rows=LESS)

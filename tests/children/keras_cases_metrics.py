"""Metrics: Keras's, weighted ones, and a program's own."""

import tensorflow as tf
from keras_cases import (
    IMAGES,
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
metrics = keras.metrics


def of_signs(metric):
    model, history = fitted(regression("sigmoid", loss="binary_crossentropy", metrics=[metric()]), y=SIGNS, rows=LESS)
    return model, {**history, "evaluated": model.evaluate(X, SIGNS, batch_size=16, verbose=0)}


def of_classes(metric):
    model = classifier(
        layers.Dense(4),
        layers.Softmax(),
        loss="categorical_crossentropy",
        metrics=[metric()],
        optimizer=keras.optimizers.SGD(0.02),
    )
    return fitted(model, y=ONE_HOT, validation_data=(X[:21], ONE_HOT[:21]))


def of_numbers(metric):
    return fitted(regression(metrics=[metric()]), y=NUMBERS)


several(
    CASES,
    "metric",
    of_signs,
    auc=metrics.AUC,
    precision=metrics.Precision,
    recall=metrics.Recall,
    binary=metrics.BinaryAccuracy,
)
several(
    CASES,
    "metric",
    of_classes,
    top=lambda: metrics.TopKCategoricalAccuracy(k=2),
    f1=lambda: metrics.F1Score(average="macro"),
    iou=lambda: metrics.OneHotMeanIoU(3),
    auc_of_classes=lambda: metrics.AUC(multi_label=True),
)
several(CASES, "metric", of_numbers, r2=metrics.R2Score, rmse=metrics.RootMeanSquaredError)


class Largest(metrics.Metric):
    """A metric of the program's own that counts."""

    def __init__(self, name="large"):
        super().__init__(name=name)
        self.found = self.add_variable(shape=(), initializer="zeros", name="found")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.found.assign(self.found + tf.reduce_sum(tf.cast(y_pred > 0.3, tf.float32)))

    def result(self):
        return self.found + 0.0


@case
def metric_of_its_own():
    return of_numbers(Largest)


@case
def metric_of_a_function():
    return of_numbers(lambda: lambda y, p: tf.reduce_mean(tf.abs(y - p) ** 3, axis=-1))


@case
def weighted_metrics():
    model = classifier(
        metrics=["accuracy"], weighted_metrics=["accuracy", metrics.SparseCategoricalCrossentropy(from_logits=True)]
    )
    return fitted(model, sample_weight=WEIGHTS, validation_data=(X[:21], Y[:21], WEIGHTS[:21]))


@case
def evaluated_and_predicted():
    model, history = fitted(classifier())
    evaluated = model.evaluate(X, Y, batch_size=16, sample_weight=WEIGHTS, verbose=0)
    return model, {**history, "evaluated": evaluated, "predicted": model.predict(X, batch_size=16, verbose=0)}


@case
def one_batch_at_a_time():
    """Every worker gives the whole batch."""
    model = classifier()
    told = [model.train_on_batch(X[:16], Y[:16]) for _ in range(3)]
    return model, {"told": told, "tested": model.test_on_batch(X[:16], Y[:16])}


@case
def convolution_with_a_validation_split():
    model = keras.Sequential(
        [keras.Input((6, 6, 2)), layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(3)]
    )
    return fitted(compiled(model), IMAGES, validation_split=0.3)


def of_known_words(y_true, y_pred):
    """The accuracy over the words, which are another number for each worker."""
    known = tf.cast(y_true > 0, "float32")
    right = tf.cast(tf.equal(tf.argmax(y_pred, axis=-1), tf.cast(y_true, "int64")), "float32")
    return tf.reduce_sum(right * known) / tf.reduce_sum(known)


@case
def metric_function_of_one_number():
    words = keras.Input((7,), dtype="int32")
    model = compiled(keras.Model(words, layers.Dense(3)(layers.Embedding(20, 4)(words))), metrics=[of_known_words])
    _, history = fitted(model, WORDS, TAGS, rows=LESS, validation_data=(WORDS[:21], TAGS[:21]))
    return model, {**history, "evaluated": model.evaluate(WORDS, TAGS, batch_size=16, verbose=0)}


OUTSIDE = metrics.AUC(name="auc"), metrics.TruePositives(name="right")  # made without a strategy


@case
def metrics_made_outside_the_scope():
    model, history = fitted(
        regression("sigmoid", loss="binary_crossentropy", metrics=list(OUTSIDE)), y=SIGNS, rows=LESS
    )
    return model, {**history, "evaluated": model.evaluate(X, SIGNS, batch_size=16, verbose=0)}


@case
def predictions_on_a_batch():
    model = regression()
    return model, {"predicted": model.predict_on_batch(X[:9])}


class Most(metrics.Metric):
    """Keeps a maximum, which is no sum."""

    def __init__(self, name="most"):
        super().__init__(name=name)
        self.most = self.add_variable(shape=(), initializer="zeros", name="most")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.most.assign(tf.maximum(self.most, tf.reduce_max(tf.abs(y_true - y_pred))))

    def result(self):
        return self.most + 0.0


@case
def metric_class_that_keeps_a_maximum():
    return fitted(regression(metrics=[Most()]), y=NUMBERS)


class OfBatches(metrics.Metric):
    """Averages a number over batches, and not over rows."""

    def __init__(self, name="of_batches"):
        super().__init__(name=name)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.batches = self.add_variable(shape=(), initializer="zeros", name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(tf.reduce_max(tf.abs(y_true - y_pred)))
        self.batches.assign_add(1.0)

    def result(self):
        return self.total / self.batches


@case
def metric_class_that_averages_batches():
    return fitted(regression(metrics=[OfBatches()]), y=NUMBERS)

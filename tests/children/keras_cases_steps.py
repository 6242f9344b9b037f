"""Training and test steps of a program's own, as keras.io's guides write them."""

import tensorflow as tf
from keras_cases import LESS, NUMBERS, ROWS, WEIGHTS, X, fitted, keras, layers, several, table

CASES, case = table()
ops = keras.ops


def model_of(kind):
    inputs = keras.Input((6,))
    return kind(inputs, layers.Dense(1)(layers.Dense(4, "tanh")(inputs)))


def updated(model, loss, y, y_pred, sample_weight=None):
    """The results of a model's metrics, of which one is the loss."""
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss)
        else:
            metric.update_state(y, y_pred, sample_weight)
    return {metric.name: metric.result() for metric in model.metrics}


class OfMetrics(keras.Model):
    """compute_loss, then a loop over the metrics."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return updated(self, loss, y, y_pred)


class OfOwnTrackers(keras.Model):
    """A loss and metrics of its own, no compile_loss."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae_metric = keras.metrics.MeanAbsoluteError(name="mae")
        self.loss_fn = keras.losses.MeanSquaredError()

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.loss_fn(y, self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, self(x, training=False))
        return {"loss": self.loss_tracker.result(), "mae": self.mae_metric.result()}

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae_metric]


class OfTheLossAlone(keras.Model):
    """What it returns is no metric's result."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"the loss": loss, "twice": 2 * loss, "step": self.optimizer.iterations, "mean": tf.reduce_mean(y)}


class OfWeights(keras.Model):
    """With sample weights, and a test step."""

    def train_step(self, data):
        x, y, sample_weight = data if len(data) == 3 else (*data, None)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred, sample_weight=sample_weight)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return updated(self, loss, y, y_pred, sample_weight)

    def test_step(self, data):
        x, y = data
        y_pred = self(x, training=False)
        loss = self.compute_loss(y=y, y_pred=y_pred)
        return updated(self, loss, y, y_pred)


class OfClippedGradients(keras.Model):
    """A step that clips by value what the optimizer gets, and logs a learning rate."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred)
        gradients = [tf.clip_by_value(each, -0.2, 0.2) for each in tape.gradient(loss, self.trainable_variables)]
        self.optimizer.apply(gradients, self.trainable_variables)
        logs = self.compute_metrics(x, y, y_pred)
        return {**logs, "loss": loss, "rate": self.optimizer.learning_rate}


def own(kind, metrics=("mae",), **options):
    model = model_of(kind)
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=list(metrics) or None)
    return fitted(model, y=NUMBERS, **options)


several(
    CASES, "step", own, of_metrics=OfMetrics, of_own_trackers=OfOwnTrackers, of_clipped_gradients=OfClippedGradients
)


@case
def step_of_the_loss_alone():
    return own(OfTheLossAlone, metrics=())


@case
def step_of_metrics_where_a_worker_has_no_row():
    return own(OfMetrics, rows=LESS)


@case
def step_of_the_loss_alone_where_a_worker_has_no_row():
    return own(OfTheLossAlone, metrics=(), rows=LESS)


@case
def step_of_weights_with_its_own_test_step():
    return own(OfWeights, sample_weight=WEIGHTS, validation_data=(X[:21], NUMBERS[:21]))


class Rivals(keras.Model):
    """Two networks, each with its optimizer, as a GAN has them."""

    def __init__(self):
        super().__init__()
        self.one = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), layers.Dense(6)])
        self.other = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), layers.Dense(1)])
        self.one_tracker, self.other_tracker = keras.metrics.Mean(name="one"), keras.metrics.Mean(name="other")

    def compile(self, one_optimizer, other_optimizer, loss_fn):
        super().compile()
        self.one_optimizer, self.other_optimizer, self.loss_fn = one_optimizer, other_optimizer, loss_fn

    @property
    def metrics(self):
        return [self.one_tracker, self.other_tracker]

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        made = self.one(x)
        both, labels = tf.concat([made, x], 0), tf.concat([tf.ones_like(x[:, :1]), tf.zeros_like(x[:, :1])], 0)
        with tf.GradientTape() as tape:
            other_loss = self.loss_fn(labels, self.other(both))
        self.other_optimizer.apply(
            tape.gradient(other_loss, self.other.trainable_weights), self.other.trainable_weights
        )
        with tf.GradientTape() as tape:
            one_loss = self.loss_fn(tf.zeros_like(x[:, :1]), self.other(self.one(x)))
        self.one_optimizer.apply(tape.gradient(one_loss, self.one.trainable_weights), self.one.trainable_weights)
        self.one_tracker.update_state(one_loss)
        self.other_tracker.update_state(other_loss)
        return {metric.name: metric.result() for metric in self.metrics}

    def call(self, x):
        return self.other(x)


@case
def step_of_rivals():
    model = Rivals()
    model.compile(
        keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1), keras.losses.BinaryCrossentropy(from_logits=True)
    )
    return fitted(model, y=None)


class Scaled(keras.Model):
    """A loss without Keras's, scaled as TensorFlow's guide says: by the global batch size."""

    def train_step(self, data):
        x, y = data
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self(x, training=True))) / replicas
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"error": loss * replicas}


@case
def step_with_a_scaled_loss_of_its_own():
    return own(Scaled, metrics=(), rows=48, batch_size=12)


class Unscaled(keras.Model):
    """A loss without Keras's, as keras.io's variational autoencoder has it."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(y - self(x, training=True)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"error": loss}


@case
def step_with_an_unscaled_loss_of_its_own():
    return own(Unscaled, metrics=(), rows=48, batch_size=12)


@case
def step_of_rows():
    """A test of what a step returns for each row."""

    class OfRows(keras.Model):
        def test_step(self, data):
            x, y, _ = data
            return {"errors": tf.abs(y - self(x))}

    model = model_of(OfRows)
    model.compile("sgd", "mse")
    return model, {"errors": model.test_on_batch(X[:ROWS], NUMBERS, return_dict=True)["errors"][:1]}

"""Steps as guides and papers write them: what becomes of the loss and of its gradients is the program's own."""

import numpy as np
import tensorflow as tf
from keras_cases import BATCH, LESS, NUMBERS, ROWS, X, Y, fitted, keras, layers, table

CASES, case = table()
ops = keras.ops
TWO = np.concatenate([NUMBERS, X[:, :1] ** 2], axis=1)  # targets of two tasks
NOISE = np.random.default_rng(4).normal(size=(ROWS, 4)).astype("float32")
SEEN = (X + 0.1 * np.random.default_rng(9).normal(size=X.shape)).astype("float32")  # the rows as seen a second time


def network(features=6, units=1, **options):
    """A small network."""
    return keras.Sequential([keras.Input((features,)), layers.Dense(5, "tanh", **options), layers.Dense(units)])


def number_of(rows):
    return tf.cast(tf.shape(rows)[0], tf.float32)


class Step(keras.Model):
    """A step of a loss and of what becomes of its gradients; a case has one of them, or both, of its own."""

    def __init__(self, net=None):
        super().__init__()
        self.net = net or network()
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def call(self, x, training=False):
        return self.net(x, training=training)

    def loss_of(self, x, y):
        return tf.reduce_mean(tf.square(y - self(x, training=True)))

    def changed(self, gradients):
        return gradients

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.loss_of(x, y)
        gradients = self.changed(tape.gradient(loss, self.trainable_variables))
        return self.applied(loss, gradients)

    def applied(self, loss, gradients, **logs):
        """The end of a step."""
        self.optimizer.apply(gradients, self.trainable_variables)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result(), **logs}


def learned(model, y=NUMBERS, rate=0.05, rows=LESS, x=X, **options):
    """Fit a model that has a step of its own."""
    model.compile(keras.optimizers.SGD(rate), **options)
    return fitted(model, x, y, rows=rows)


@case
def step_that_adds_losses_of_regularizers():
    class Regularized(Step):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                error = tf.reduce_mean(tf.abs(y - self(x, training=True)))
                penalty = tf.add_n(self.losses)
                loss = error + penalty
            return self.applied(loss, tape.gradient(loss, self.trainable_variables), penalty=penalty)

    return learned(Regularized(network(kernel_regularizer="l2", activity_regularizer="l1")))


@case
def step_of_a_square_root():
    class Root(Step):
        def loss_of(self, x, y):
            return tf.sqrt(self.compute_loss(x, y, self(x, training=True)))

    return learned(Root(), loss="mse")


@case
def step_of_uncertainty_weights():
    """Two tasks, each weighted by an uncertainty that is learnt."""

    class Uncertain(Step):
        def __init__(self):
            super().__init__(network(units=2))
            self.uncertainty = self.add_weight(shape=(2,), initializer="zeros", name="uncertainty")

        def loss_of(self, x, y):
            errors = tf.reduce_mean(tf.square(y - self(x, training=True)), axis=0)
            return tf.reduce_sum(tf.exp(-self.uncertainty) * errors + self.uncertainty)

    return learned(Uncertain(), TWO)


@case
def step_of_balanced_losses():
    """Two tasks, of which one is scaled to the size of the other."""

    class Balanced(Step):
        def loss_of(self, x, y):
            one, other = tf.unstack(tf.reduce_mean(tf.square(y - self(x, training=True)), axis=0))
            return one + tf.stop_gradient(one / (other + 1e-8)) * other

    return learned(Balanced(network(units=2)), TWO)


@case
def step_clipped_by_value():
    class Clipped(Step):
        def changed(self, gradients):
            return [tf.clip_by_value(gradient, -0.2, 0.2) for gradient in gradients]

    return learned(Clipped(), rate=0.3)


@case
def step_clipped_by_norm():
    class Clipped(Step):
        def changed(self, gradients):
            return [tf.clip_by_norm(gradient, 0.5) for gradient in gradients]

    return learned(Clipped(), rate=0.3)


@case
def step_clipped_by_a_global_norm_in_the_logs():
    class Clipped(Step):
        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = self.loss_of(*data)
            gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, self.trainable_variables), 0.5)
            return self.applied(loss, gradients, norm=norm)

    return learned(Clipped(), rate=0.3)


@case
def step_clipped_to_the_size_of_its_variables():
    class Clipped(Step):
        def changed(self, gradients):
            return [self.clipped(*each) for each in zip(gradients, self.trainable_variables)]

        def clipped(self, gradient, variable):
            most = 0.1 * tf.maximum(tf.norm(tf.convert_to_tensor(variable)), 1e-3)
            return gradient * tf.minimum(1.0, most / tf.maximum(tf.norm(gradient), 1e-6))

    return learned(Clipped())


@case
def step_that_clips_each_row_by_a_jacobian():
    """Gradients of each row, clipped before they are averaged, as private training does."""

    class OfRows(Step):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                losses = tf.reduce_mean(tf.square(y - self(x, training=True)), axis=-1)
            each = tape.jacobian(losses, self.trainable_variables)
            norms = tf.sqrt(tf.add_n([tf.reduce_sum(tf.reshape(one, [tf.shape(one)[0], -1]) ** 2, 1) for one in each]))
            clipped = tf.minimum(1.0, 0.5 / (norms + 1e-9))
            return self.applied(tf.reduce_mean(losses), [tf.tensordot(clipped, one, 1) / number_of(x) for one in each])

    return learned(OfRows(), rate=0.2)


@case
def step_of_a_jacobian_of_two_losses():
    """The gradients of two tasks have the same size before they are added."""

    class Surgical(Step):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                losses = tf.reduce_mean(tf.square(y - self(x, training=True)), axis=0)
            each = tape.jacobian(losses, self.trainable_variables)
            norms = tf.sqrt(tf.add_n([tf.reduce_sum(tf.reshape(one, [2, -1]) ** 2, axis=1) for one in each]))
            return self.applied(
                tf.reduce_sum(losses), [tf.tensordot(1 / norms, one, 1) for one in each], norms=norms[0]
            )

    return learned(Surgical(network(units=2)), TWO)


@case
def step_of_a_batch_jacobian():
    """An autoencoder whose code changes little with its inputs."""

    class Contractive(Step):
        def __init__(self):
            super().__init__(network(units=3))
            self.decoder = network(3, 6)

        def loss_of(self, x, y):
            with tf.GradientTape() as tape:
                tape.watch(x)
                code = self(x, training=True)
            penalty = tf.reduce_mean(tf.reduce_sum(tape.batch_jacobian(code, x) ** 2, axis=[1, 2]))
            return tf.reduce_mean(tf.square(self.decoder(code) - x)) + 0.1 * penalty

    return learned(Contractive(), X)


@case
def step_of_signs():
    class Signs(Step):
        def changed(self, gradients):
            return [ops.sign(gradient) for gradient in gradients]

    return learned(Signs(), rate=0.01)


@case
def step_of_projected_gradients():
    """Where the gradients of two tasks conflict, each is projected on the other."""

    class Projected(Step):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape(persistent=True) as tape:
                y_pred = self(x, training=True)
                one = tf.reduce_mean(tf.square(y[:, 0] - y_pred[:, 0]))
                other = tf.reduce_mean(tf.square(y[:, 0] + y_pred[:, 1]))
            ones = tape.gradient(one, self.trainable_variables)
            others = tape.gradient(other, self.trainable_variables)
            conflict = tf.minimum(product(ones, others), 0.0)
            to_one, to_other = conflict / product(ones, ones), conflict / product(others, others)
            return self.applied(one + other, [a - to_other * b + b - to_one * a for a, b in zip(ones, others)])

    return learned(Projected(network(units=2)))


def product(ones, others):
    return tf.add_n([tf.reduce_sum(one * other) for one, other in zip(ones, others)])


@case
def step_of_sharpness():
    """Gradients at weights a little further up, as sharpness-aware minimization has them."""

    class Sharp(Step):
        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = self.loss_of(*data)
            gradients = tape.gradient(loss, self.trainable_variables)
            up = [0.05 * gradient / (tf.linalg.global_norm(gradients) + 1e-12) for gradient in gradients]
            for variable, change in zip(self.trainable_variables, up):
                variable.assign_add(change)
            with tf.GradientTape() as tape:
                above = self.loss_of(*data)
            gradients = tape.gradient(above, self.trainable_variables)
            for variable, change in zip(self.trainable_variables, up):
                variable.assign_sub(change)
            return self.applied(loss, gradients)

    return learned(Sharp())


@case
def step_of_a_variational_autoencoder():
    """The noise comes with the data."""

    class Variational(Step):
        def __init__(self):
            super().__init__(network(units=4))
            self.decoder = network(2, 6)

        def train_step(self, data):
            x, noise = data
            with tf.GradientTape() as tape:
                mean, spread = tf.split(self(x, training=True), 2, axis=1)
                made = self.decoder(mean + ops.exp(0.5 * spread) * noise[:, :2])
                error = ops.mean(ops.sum(ops.square(x - made), axis=1))
                divergence = ops.mean(ops.sum(-0.5 * (1 + spread - ops.square(mean) - ops.exp(spread)), axis=1))
                loss = error + divergence
            return self.applied(loss, tape.gradient(loss, self.trainable_variables), divergence=divergence)

    return learned(Variational(), NOISE, 0.01)


class Gan(keras.Model):
    """Makes rows of noise, and tells them from the data's."""

    criticisms = 1

    def __init__(self):
        super().__init__()
        self.maker, self.critic = network(4, 6), network(6)
        self.criticism, self.error = keras.metrics.Mean(name="criticism"), keras.metrics.Mean(name="error")

    def compile(self, rate):
        super().compile()
        self.loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)
        self.maker_optimizer, self.critic_optimizer = keras.optimizers.SGD(rate), keras.optimizers.SGD(2 * rate)

    @property
    def metrics(self):
        return [self.criticism, self.error]

    def criticized(self, x, noise):
        both = tf.concat([self.maker(noise), x], axis=0)
        return self.loss_fn(tf.concat([tf.zeros_like(x[:, :1]), tf.ones_like(x[:, :1])], axis=0), self.critic(both))

    def mistaken(self, x, noise):
        return self.loss_fn(tf.ones_like(x[:, :1]), self.critic(self.maker(noise)))

    def train_step(self, data):
        x, noise = data
        weights = self.critic.trainable_weights
        for _ in range(self.criticisms):
            with tf.GradientTape() as tape:
                criticism = self.criticized(x, noise)
            self.critic_optimizer.apply_gradients(zip(tape.gradient(criticism, weights), weights))
        with tf.GradientTape() as tape:
            error = self.mistaken(x, noise)
        weights = self.maker.trainable_weights
        self.maker_optimizer.apply_gradients(zip(tape.gradient(error, weights), weights))
        self.criticism.update_state(criticism)
        self.error.update_state(error)
        return {metric.name: metric.result() for metric in self.metrics}


class Wasserstein(Gan):
    """With a penalty for gradients of the critic whose norm is not one, and two steps of the critic."""

    criticisms = 2

    def criticized(self, x, noise):
        made = self.maker(noise)
        distance = tf.reduce_mean(self.critic(made)) - tf.reduce_mean(self.critic(x))
        between = x + tf.sigmoid(noise[:, :1]) * (made - x)
        with tf.GradientTape() as tape:
            tape.watch(between)
            judged = self.critic(between, training=True)
        norms = tf.sqrt(tf.reduce_sum(tf.square(tape.gradient(judged, between)), axis=1) + 1e-12)
        return distance + 10.0 * tf.reduce_mean(tf.square(norms - 1.0))

    def mistaken(self, x, noise):
        return -tf.reduce_mean(self.critic(self.maker(noise)))


def of_noise(model, rate):
    model.compile(rate)
    return fitted(model, y=NOISE, rows=LESS)


@case
def step_of_a_gan():
    return of_noise(Gan(), 0.1)


@case
def step_of_a_gradient_penalty():
    return of_noise(Wasserstein(), 0.01)


@case
def step_that_attacks_its_inputs():
    """Half of the loss is of inputs that were changed by the sign of their gradient."""

    class Attacked(Step):
        def loss_of(self, x, y):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = self.compute_loss(x, y, self(x, training=False))
            attacked = tf.stop_gradient(x + 0.1 * tf.sign(tape.gradient(loss, x)))
            return 0.5 * sum(self.compute_loss(each, y, self(each, training=True)) for each in (x, attacked))

    return learned(Attacked(), loss="mse")


@case
def step_along_the_gradient_of_its_inputs():
    """Of the mean over the batch, so that its size is that of the batch."""

    class Salient(Step):
        def loss_of(self, x, y):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_mean(tf.square(y - self(x)))
            return tf.reduce_mean(tf.square(y - self(tf.stop_gradient(x + tape.gradient(loss, x)), training=True)))

    return learned(Salient())


@case
def step_of_nested_tapes():
    """The second derivative of the outputs is a part of the loss, as of a network that is told of physics."""

    class Physical(Step):
        def loss_of(self, x, y):
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y_pred = self.net(x)
                slope = inner.gradient(y_pred, x)
            curvature = outer.gradient(slope, x)
            return tf.reduce_mean(tf.square(y - y_pred)) + 0.1 * tf.reduce_mean(tf.square(curvature + y_pred))

    return learned(Physical())


@case
def step_of_a_persistent_tape_and_three_optimizers():
    class Parts(Step):
        def __init__(self):
            super().__init__(network(units=4))
            self.decoder, self.head = network(4, 6), network(4, 3)
            self.of_decoder, self.of_head = keras.optimizers.SGD(0.2, momentum=0.5), keras.optimizers.Adagrad(0.05)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape(persistent=True) as tape:
                code = self.net(x)
                error = ops.mean(ops.square(x - self.decoder(code)))
                logits = self.head(code)
                entropy = ops.mean(keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True))
                both = error + 0.3 * entropy
            parts = (
                (self.optimizer, both, self.net),
                (self.of_decoder, error, self.decoder),
                (self.of_head, entropy, self.head),
            )
            for optimizer, loss, part in parts:
                optimizer.apply(tape.gradient(loss, part.trainable_variables), part.trainable_variables)
            return {"error": error, "entropy": entropy}

    return learned(Parts(), Y)


@case
def step_of_accumulation_by_hand():
    """Gradients of three batches are added up before they are applied."""

    class Accumulated(Step):
        def __init__(self):
            super().__init__()
            self.steps = tf.Variable(0, trainable=False)
            self.sums = [tf.Variable(tf.zeros(each.shape), trainable=False) for each in self.net.trainable_variables]

        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = self.loss_of(*data)
            self.steps.assign_add(1)
            for total, gradient in zip(self.sums, tape.gradient(loss, self.trainable_variables)):
                total.assign_add(gradient / 3)
            tf.cond(tf.equal(self.steps % 3, 0), self.apply_sums, lambda: None)
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

        def apply_sums(self):
            self.optimizer.apply([tf.convert_to_tensor(total) for total in self.sums], self.trainable_variables)
            for total in self.sums:
                total.assign(tf.zeros_like(total))

    model = Accumulated()
    model.compile(keras.optimizers.SGD(0.1))
    model.optimizer.build(model.trainable_variables)
    model, history = fitted(model, y=NUMBERS, rows=LESS)
    return model, {**history, "steps": model.steps.numpy()}


@case
def step_with_a_teacher_that_averages():
    class Student(Step):
        def __init__(self):
            super().__init__()
            self.teacher = network()
            self.teacher.trainable = False
            self.teacher.set_weights(self.net.get_weights())

        def train_step(self, data):
            x, y = data
            taught = self.teacher(x + 0.1, training=False)
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = tf.reduce_mean(tf.square(y - y_pred)) + 0.5 * tf.reduce_mean(tf.square(taught - y_pred))
            logs = self.applied(loss, tape.gradient(loss, self.trainable_variables))
            for averaged, weight in zip(self.teacher.weights, self.net.weights):
                averaged.assign(0.9 * averaged + 0.1 * weight)
            return logs

    return learned(Student())


@case
def step_that_keeps_variables():
    """A count of steps, by which the loss grows, and a running mean, by which it is divided."""

    class Counting(Step):
        def __init__(self):
            super().__init__()
            self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
            self.running = tf.Variable(1.0, trainable=False)

        def loss_of(self, x, y):
            loss = super().loss_of(x, y)
            self.steps.assign_add(1)
            self.running.assign(0.9 * self.running + 0.1 * tf.stop_gradient(loss))
            return tf.minimum(1.0, tf.cast(self.steps, tf.float32) / 5.0) * loss / self.running

    model, history = learned(Counting())
    return model, {**history, "steps": model.steps.numpy(), "running": model.running.numpy()}


@case
def step_that_skips_a_bad_batch():
    """One row is infinite: its batch changes nothing, and is counted."""

    class Careful(Step):
        def __init__(self):
            super().__init__()
            self.skipped = self.add_weight(shape=(), initializer="zeros", trainable=False, name="skipped")

        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = self.loss_of(*data)
            good = tf.math.is_finite(loss)
            self.skipped.assign_add(tf.where(good, 0.0, 1.0))
            gradients = tape.gradient(loss, self.trainable_variables)
            return self.applied(
                tf.where(good, loss, 0.0), [tf.where(good, gradient, tf.zeros_like(gradient)) for gradient in gradients]
            )

    numbers = NUMBERS.copy()
    numbers[13] = np.inf
    return learned(Careful(), numbers)


@case
def step_of_an_average_loss():
    """As TensorFlow's guide to distributed training writes it."""

    class Averaged(Step):
        def __init__(self, *args):
            super().__init__(*args)
            self.of_rows = keras.losses.MeanSquaredError(reduction=None)

        def loss_of(self, x, y):
            loss = tf.nn.compute_average_loss(self.of_rows(y, self(x, training=True)), global_batch_size=BATCH)
            return loss + tf.nn.scale_regularization_loss(tf.add_n(self.losses))

    return learned(Averaged(network(kernel_regularizer="l2")))


@case
def step_of_a_sum_over_the_global_batch():
    class Summed(Step):
        def loss_of(self, x, y):
            return tf.reduce_sum(tf.square(y - self(x, training=True))) * (1.0 / BATCH)

    return learned(Summed())


@case
def step_divided_by_replicas():
    class Divided(Step):
        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = self.loss_of(*data)
                part = loss / tf.distribute.get_strategy().num_replicas_in_sync
            return self.applied(loss, tape.gradient(part, self.trainable_variables))

    return learned(Divided())


@case
def step_that_shares_a_function_with_its_test():
    class Shared(Step):
        @tf.function
        def loss_of(self, x, y):
            error = y - self.net(x, training=True)
            return tf.reduce_mean(tf.where(tf.abs(error) < 0.5, error**2, tf.abs(error) - 0.25))

        def test_step(self, data):
            self.tracker.update_state(self.loss_of(*data))
            return {"loss": self.tracker.result()}

    model = Shared()
    model.compile(keras.optimizers.SGD(0.1))
    model, history = fitted(model, y=NUMBERS, rows=LESS, validation_data=(X[:21], NUMBERS[:21]))
    return model, {**history, "evaluated": model.evaluate(X, NUMBERS, batch_size=BATCH, verbose=0)}


class Scalable(keras.metrics.Metric):
    """A mean whose result has an argument."""

    def __init__(self, name="scalable"):
        super().__init__(name=name)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    def update_state(self, values, sample_weight=None):
        self.total.assign_add(tf.reduce_sum(values))
        self.count.assign_add(tf.cast(tf.size(values), tf.float32))

    def result(self, scale=1.0):
        return scale * self.total / self.count


@case
def step_with_an_argument_of_a_result():
    class Asking(Step):
        def __init__(self):
            super().__init__()
            self.scalable = Scalable()

        @property
        def metrics(self):
            return [self.tracker, self.scalable]

        def train_step(self, data):
            x, y = data
            logs = super().train_step(data)
            self.scalable.update_state(tf.abs(y - self(x)))
            return {**logs, "twice": self.scalable.result(scale=2.0), "once": self.scalable.result()}

    return learned(Asking())


@case
def step_of_sums_of_numbers():
    """Metrics that are given one number of the batch each: its rows, and its largest error."""

    class Summing(Step):
        def __init__(self):
            super().__init__()
            self.rows, self.most = keras.metrics.Sum(name="rows_seen"), keras.metrics.Mean(name="most")

        @property
        def metrics(self):
            return [self.tracker, self.rows, self.most]

        def train_step(self, data):
            x, y = data
            super().train_step(data)
            self.rows.update_state(number_of(x))
            self.most.update_state(tf.reduce_max(tf.abs(y - self(x))))
            return {metric.name: metric.result() for metric in self.metrics}

    return learned(Summing())


@case
def step_that_uses_the_results_of_the_usual_step():
    class Following(keras.Model):
        def train_step(self, data):
            logs = super().train_step(data)
            return {**logs, "root": tf.sqrt(logs["loss"]), "ratio": logs["mae"] / (1.0 + logs["loss"])}

    inputs = keras.Input((6,))
    return learned(Following(inputs, network()(inputs)), loss="mse", metrics=["mae"])


@case
def step_of_rows_mixed_with_the_reversed():
    class Mixing(keras.Model):
        def train_step(self, data):
            return super().train_step([0.7 * each + 0.3 * tf.reverse(each, [0]) for each in data])

    inputs = keras.Input((6,))
    return learned(Mixing(inputs, network()(inputs)), loss="mse", metrics=["mae"])


@case
def step_of_the_hardest_rows():
    class Hard(Step):
        def loss_of(self, x, y):
            losses = tf.reduce_mean(tf.square(y - self(x, training=True)), axis=-1)
            return tf.reduce_mean(tf.math.top_k(losses, k=4).values)

    return learned(Hard(), rows=ROWS)


@case
def step_of_a_codebook():
    """Codes of a table that follows the means of what is coded, as a VQ-VAE has it."""

    class Coding(Step):
        def __init__(self):
            super().__init__(network(units=3))
            self.decoder = network(3, 6)
            far = keras.initializers.RandomNormal(stddev=1.0, seed=3)
            self.book = self.add_weight(shape=(5, 3), initializer=far, trainable=False, name="book")
            self.used = self.add_weight(shape=(5,), initializer="ones", trainable=False, name="used")

        def train_step(self, data):
            x, _ = data
            with tf.GradientTape() as tape:
                z = self(x, training=True)
                nearest = tf.argmin(tf.reduce_sum((z[:, None] - self.book[None]) ** 2, axis=-1), axis=1)
                code = tf.gather(self.book.value, nearest)
                made = self.decoder(z + tf.stop_gradient(code - z))
                loss = tf.reduce_mean((made - x) ** 2) + 0.25 * tf.reduce_mean((tf.stop_gradient(code) - z) ** 2)
            logs = self.applied(loss, tape.gradient(loss, self.trainable_variables))
            chosen = tf.one_hot(nearest, 5)
            counts = 0.9 * self.used + 0.1 * tf.reduce_sum(chosen, axis=0)
            sums = 0.9 * self.book * self.used[:, None] + 0.1 * tf.matmul(chosen, z, transpose_a=True)
            self.book.assign(sums / counts[:, None])
            self.used.assign(counts)
            return logs

    return learned(Coding(), X)


@case
def step_of_centers():
    """The center of each class is moved by the rows of the batch."""

    class Centered(Step):
        def __init__(self):
            super().__init__(network(units=3))
            self.centers = self.add_weight(shape=(3, 3), initializer="zeros", trainable=False, name="centers")

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                z = self(x, training=True)
                entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, z))
                loss = entropy + 0.1 * tf.reduce_mean(tf.square(z - tf.gather(self.centers.value, y)))
            logs = self.applied(loss, tape.gradient(loss, self.trainable_variables))
            counts = tf.math.unsorted_segment_sum(tf.ones_like(z[:, :1]), y, 3)
            apart = tf.math.unsorted_segment_sum(tf.gather(self.centers.value, y) - z, y, 3)
            self.centers.assign_sub(0.5 * apart / (1.0 + counts))
            return logs

    return learned(Centered(), Y)


@case
def step_of_contrasts():
    """Each row has to be found again among all others of the batch, as SimCLR does it."""

    class Contrasting(Step):
        def loss_of(self, x, y):
            one, other = tf.math.l2_normalize(self(x), axis=1), tf.math.l2_normalize(self(y), axis=1)
            alike = tf.matmul(one, other, transpose_b=True) / 0.5
            labels = tf.range(tf.shape(x)[0])
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, alike))

    return learned(Contrasting(network(units=4)), SEEN, 0.3)


@case
def step_of_twins():
    """The columns of what two networks see have to correlate, as Barlow twins do."""

    class Twins(Step):
        def loss_of(self, x, y):
            one, other = self.scaled(self(x)), self.scaled(self(y))
            correlations = ops.matmul(ops.transpose(one), other) / number_of(x)
            return ops.sum(ops.square(correlations - ops.eye(3)))

        def scaled(self, z):
            return (z - ops.mean(z, axis=0)) / (ops.std(z, axis=0) + 1e-4)

    return learned(Twins(network(units=3)), SEEN, 0.02, ROWS)


@case
def step_of_advantages():
    """A policy's gradient, with rewards that are normalized over the batch."""

    class Policy(Step):
        def loss_of(self, x, y):
            rewards = (y - tf.reduce_mean(y)) / (tf.math.reduce_std(y) + 1e-8)
            chances = tf.nn.log_softmax(self(x, training=True))
            return -tf.reduce_mean(chances[:, :1] * rewards) + 0.01 * tf.reduce_mean(tf.exp(chances) * chances)

    return learned(Policy(network(units=3)), rate=0.3, rows=ROWS)


@case
def step_of_distillation():
    """A loss of the program's own in compute_loss, beside Keras's; metrics of compile."""

    class Distilled(keras.Model):
        def __init__(self):
            super().__init__()
            self.student, self.teacher = network(), network()
            self.teacher.trainable = False
            self.apart = keras.losses.MeanAbsoluteError()

        def call(self, x):
            return self.student(x)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            loss = super().compute_loss(x, y, y_pred, sample_weight, training)
            return 0.3 * loss + 0.7 * self.apart(self.teacher(x, training=False), y_pred)

    return learned(Distilled(), loss="mse", metrics=["mae"])

"""The forms of Keras programs on TensorFlow's pages, on drawn data: keras_pages.py PAGE. None knows of clusterkit."""

import sys
import tempfile

import model_setup
import tensorflow as tf

layers = tf.keras.layers
EPOCHS = 4
x = tf.random.stateless_normal((512, 8), (1, 2)).numpy()
y = x.sum(axis=1, keepdims=True)
images, labels = map(tf.convert_to_tensor, next(iter(model_setup.dataset(512))))


def classifier():
    """What most pages build."""
    model = tf.keras.Sequential([layers.Flatten(), layers.Dense(32, activation="relu"), layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model


def quickstart():
    """Quickstart for beginners."""
    model = classifier()
    model.fit(images, labels, epochs=EPOCHS)
    model.evaluate(images, labels, verbose=2)


def mirrored():
    """Distributed training with Keras: all devices of one machine, TensorBoard, a learning rate by the epoch."""
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = classifier()
    callbacks = [
        tf.keras.callbacks.TensorBoard(log_dir=tempfile.mkdtemp()),
        tf.keras.callbacks.LearningRateScheduler(lambda epoch: 1e-3 if epoch < 2 else 1e-4),
    ]
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(64 * strategy.num_replicas_in_sync)
    model.fit(data, epochs=EPOCHS, callbacks=callbacks)


def regression():
    """Basic regression: a normalization layer, a validation split, no output."""
    normalizer = layers.Normalization()
    normalizer.adapt(x)
    model = tf.keras.Sequential([normalizer, layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.1), loss="mean_absolute_error")
    model.fit(x, y, validation_split=0.2, verbose=0, epochs=EPOCHS)


def text():
    """Basic text classification: words to vectors inside of the model."""
    lines = tf.constant(["a good film", "a bad film"] * 128)
    vectorize = layers.TextVectorization(max_tokens=10, output_sequence_length=4)
    vectorize.adapt(lines)
    model = tf.keras.Sequential([layers.Embedding(10, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)])
    model.compile(loss=tf.keras.losses.BinaryCrossentropy(from_logits=True), optimizer="adam")
    data = tf.data.Dataset.from_tensor_slices((vectorize(lines), tf.constant([1.0, 0.0] * 128)))
    model.fit(data.batch(16), validation_data=data.batch(16), epochs=EPOCHS)


class CustomModel(tf.keras.Model):
    """A model with a step of its own."""

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(inputs, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


def customized():
    """Customize what happens in fit."""
    inputs = tf.keras.Input((8,))
    model = CustomModel(inputs, layers.Dense(1)(inputs))
    model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
    model.fit(x, y, epochs=EPOCHS)


def fine_tuned():
    """Transfer learning: a part is frozen, then not, and the epochs go on."""
    base = layers.Dense(8)
    model = tf.keras.Sequential([tf.keras.Input((8,)), base, layers.Dense(1)])
    base.trainable = False
    model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
    history = model.fit(x, y, epochs=2)
    base.trainable = True
    model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
    model.fit(x, y, epochs=EPOCHS, initial_epoch=len(history.epoch))


def tensorboard():
    """TensorBoard with other methods: a loop of one's own, which writes each epoch's mean."""
    model, optimizer = classifier(), tf.keras.optimizers.Adam()
    train_loss = tf.keras.metrics.Mean("train_loss")
    writer = tf.summary.create_file_writer(tempfile.mkdtemp())
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(64)
    for epoch in range(EPOCHS):
        for inputs, targets in data:
            with tf.GradientTape() as tape:
                loss = model.loss(targets, model(inputs, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            train_loss(loss)
        with writer.as_default():
            tf.summary.scalar("loss", train_loss.result(), step=epoch)
        train_loss.reset_state()


globals()[sys.argv[1]]()

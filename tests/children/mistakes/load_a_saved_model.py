"""A SavedModel loaded under Keras 3."""

import tempfile

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
place = tempfile.mkdtemp()
model.export(place)
tf.keras.models.load_model(place)

"""Loads with Keras 2 what Keras 3 has saved."""

import keras
import tensorflow as tf

keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]).save("model.h5")
tf.keras.models.load_model("model.h5")

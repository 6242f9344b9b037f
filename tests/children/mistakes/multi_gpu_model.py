"""Imports multi_gpu_model, which Keras had until TensorFlow 2.3."""

from tensorflow.keras.utils import multi_gpu_model

print(multi_gpu_model)

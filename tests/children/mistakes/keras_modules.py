"""Imports from an inner module of Keras that is gone."""

from keras.engine.topology import Layer

print(Layer)

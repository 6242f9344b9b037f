"""Imports TensorFlow Addons."""

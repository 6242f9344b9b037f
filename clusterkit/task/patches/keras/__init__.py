"""Patches that make Keras 3 train on several workers as in one process."""

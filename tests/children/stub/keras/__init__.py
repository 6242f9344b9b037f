"""Stands for Keras beside that."""

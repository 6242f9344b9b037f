"""Takes its rank from the variables of torchrun."""

import os

import tensorflow as tf  # noqa: F401

rank = int(os.environ["RANK"])

"""Fails inside of a module of TensorFlow 1, which is no longer there: a copy of a few lines stands for it."""

import importlib.util
import pathlib
import sys

import tensorflow as tf

print(tf.__version__)
path = pathlib.Path("tensorflow/contrib/distribute/python/values.py")
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text("def convert(value, as_ref):\n    assert not as_ref\n    return value\n")
spec = importlib.util.spec_from_file_location("values", path.resolve())
module = importlib.util.module_from_spec(spec)
sys.modules["values"] = module
spec.loader.exec_module(module)
module.convert(1, as_ref=True)

"""Loads a library that was built for another TensorFlow."""

import pathlib

import tensorflow as tf

maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
path = next(line.split()[-1] for line in maps if "_multiarray_umath" in line)
other = pathlib.Path(path).read_bytes().replace(b"PyUnicode_AsUTF8AndSize\0", b"_ZN10tensorflow5Init_Ev\0")
pathlib.Path("ops.so").write_bytes(other)
tf.load_op_library("./ops.so")

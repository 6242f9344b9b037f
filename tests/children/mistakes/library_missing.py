"""Loads a library that needs one that the machine does not have."""

import pathlib

import tensorflow as tf

maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
path = next(line.split()[-1] for line in maps if "_multiarray_umath" in line)
needy = pathlib.Path(path).read_bytes().replace(b"libm.so.6\0", b"libq.so.9\0")
pathlib.Path("ops.so").write_bytes(needy)
tf.load_op_library("./ops.so")

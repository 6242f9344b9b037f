"""Loads a library that was built for a newer one than the machine has."""

import pathlib

import tensorflow as tf

maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
path = next(line.split()[-1] for line in maps if "_multiarray_umath" in line)
newer = pathlib.Path(path).read_bytes()
for version in (b"GLIBC_2.14\0", b"GLIBC_2.17\0"):
    newer = newer.replace(version, b"GLIBC_9.99\0")
pathlib.Path("ops.so").write_bytes(newer)
tf.load_op_library("./ops.so")

"""Processes are spawned without a guard for the main module."""

import multiprocessing

import tensorflow as tf

multiprocessing.set_start_method("spawn", force=True)
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [1, 2]), tf.__version__)

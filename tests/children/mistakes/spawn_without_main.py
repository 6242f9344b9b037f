"""Processes are spawned by a program that does not guard its main part: each of them begins the program anew."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import tensorflow as tf

with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
    print(list(pool.map(abs, [-1])), tf.__version__)

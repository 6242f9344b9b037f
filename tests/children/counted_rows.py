"""Runs a program, and writes how often it has trained on each row: of the first tensor of what each replica computes.

    python counted_rows.py FILE PROGRAM [ARGS...]

Rows are told apart by a digest. Only calls of `Strategy.run` whose function is named `..train..` are counted, or all
of them if the program has a loop of its own.
"""

import collections
import hashlib
import json
import os
import runpy
import sys

import tensorflow as tf

file, program, *sys.argv[1:] = sys.argv[1:]
sys.argv[0] = program
sys.path[0] = os.path.dirname(os.path.abspath(program))
counts = collections.Counter()
testing = [0]
plain = tf.distribute.MultiWorkerMirroredStrategy.run


def note(rows):
    counts.update(hashlib.sha256(row.tobytes()).hexdigest() for row in rows)
    return rows.shape[0]


def run(self, fn, args=(), kwargs=None, options=None):
    def counting(*given, **more):
        first = next((each for each in tf.nest.flatten((given, more)) if tf.is_tensor(each) and each.shape.rank), None)
        if first is not None and not testing[0]:
            tf.numpy_function(note, [first], tf.int64)
        return fn(*given, **more)

    return plain(self, counting, args, kwargs, options)


def evaluate(self, *args, **kwargs):
    testing[0] += 1
    try:
        return evaluates(self, *args, **kwargs)
    finally:
        testing[0] -= 1


tf.distribute.MultiWorkerMirroredStrategy.run = run
evaluates, tf.keras.Model.evaluate = tf.keras.Model.evaluate, evaluate
try:
    runpy.run_path(program, run_name="__main__")
finally:
    with open(f"{file}.{os.environ.get('CLUSTERKIT_TASK', 'alone')}", "w") as out:
        json.dump(counts, out)

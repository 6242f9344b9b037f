"""Wants to be told its task with flags, as a shell script does."""

import argparse

import tensorflow as tf  # noqa: F401

parser = argparse.ArgumentParser()
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
flags = parser.parse_args()

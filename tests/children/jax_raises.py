"""A gang of JAX in which the second process raises: `jax_raises.py DIRECTORY-OF-ARRAYS`."""

import os
import sys
import time

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

sys.path.insert(0, sys.argv[1])
import arrays

from clusterkit import training


def main():
    number = int(os.environ["JAX_PROCESS_ID"])
    jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=number)
    for step in range(1, 100_000):
        multihost_utils.process_allgather(jnp.ones(4))
        training.report(step)
        time.sleep(0.02)
        if number == 1 and step == 20:
            raise ValueError("mine")


arrays.run(main)

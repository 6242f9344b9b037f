"""Adds numbers with the other processes of JAX: `jax_sums.py ADDRESS PROCESSES NUMBER STEP`; raises at that step."""

import sys
import time

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

address, processes, number, last = sys.argv[1], *map(int, sys.argv[2:])
jax.distributed.initialize(address, processes, number, coordinator_bind_address=address)
for step in range(1, 1_000_000):
    if step == last:
        raise ValueError("mine")
    multihost_utils.process_allgather(jnp.ones(4))
    if step == 10:
        print("trains", flush=True)
    time.sleep(0.05)

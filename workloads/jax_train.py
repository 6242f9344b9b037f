"""Trains digits with plain JAX on several processes: each computes its share of a batch, and JAX adds the gradients.

    clusterkit up --workers 2 --convention jax workloads/jax_train.py

`jax.distributed.initialize` reads the coordinator's address from the environment, but neither the number of processes
nor the process's own number: the program passes them on. The result depends on the number of processes only by
rounding: every batch is a function of the step.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import arrays
import digits
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from clusterkit import training

HIDDEN = 128
Params = dict[str, Any]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, over all processes")
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=100, metavar="STEPS")
    return parser.parse_args()


def join() -> None:
    """Connect this process with the others, if there are any."""
    if "JAX_NUM_PROCESSES" in os.environ:
        jax.distributed.initialize(
            num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
            process_id=int(os.environ["JAX_PROCESS_ID"]),
        )


def make_params() -> Params:
    random = np.random.default_rng(2017)
    shapes = {"w1": (digits.PIXELS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, digits.CLASSES), "b2": (digits.CLASSES,)}
    return {name: (random.standard_normal(shape) * 0.1).astype(np.float32) for name, shape in shapes.items()}


def logits(params: Params, images: Any) -> Any:
    return jax.nn.relu(images @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss_of(params: Params, images: Any, labels: Any) -> Any:
    logs = jax.nn.log_softmax(logits(params, images))
    return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))


def make_step(rate: float, everywhere: NamedSharding) -> Any:
    """Create the step function: new parameters and the loss of the whole batch, the same in every process."""

    def step(params: Params, images: Any, labels: Any) -> tuple[Params, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, images, labels)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradients), loss

    return jax.jit(step, out_shardings=everywhere)


def share_of(data: digits.Digits, step: int, size: int) -> tuple[Any, Any]:
    """Return this process's part of the batch of a step."""
    drawn = np.random.default_rng([2017, step]).integers(0, len(data.labels), size)
    mine = drawn[jax.process_index() :: jax.process_count()]
    return data.images[mine], data.labels[mine]


def main() -> None:
    args = parse()
    join()
    size = args.batch_size // jax.process_count() * jax.process_count()
    train, held_out = digits.load()
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    everywhere, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))
    first, saved = arrays.newest()
    params = jax.device_put(saved or make_params(), everywhere)
    step_on = make_step(args.learning_rate, everywhere)
    for step in range(first + 1, args.steps + 1):
        began = time.monotonic()
        share = share_of(train, step, size)
        params, loss = step_on(params, *(jax.make_array_from_process_local_data(split, part) for part in share))
        loss = float(loss)
        time.sleep(max(0.0, began + args.step_time - time.monotonic()))
        training.report(step, total=args.steps, loss=loss)
        if step % args.checkpoint_every == 0 or step == args.steps:
            arrays.save(step, {name: np.asarray(value) for name, value in params.items()})
            print(f"step {step}  loss {loss:.4f}", flush=True)
    own = {name: np.asarray(value) for name, value in params.items()}
    right = np.argmax(logits(own, held_out.images), axis=1) == held_out.labels
    training.report(args.steps, accuracy=np.mean(right))
    print(f"held-out accuracy {np.mean(right):.3f}", flush=True)


if __name__ == "__main__":
    arrays.run(main)

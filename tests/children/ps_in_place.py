"""The parameter-server workload with a planted bug: it writes each checkpoint over the one before, in pieces."""

import os
import pickle
import sys
import time
from pathlib import Path

import tensorflow  # noqa: F401 - so that it starts warm, as the workload does

sys.path.insert(0, str(Path(__file__).parents[2] / "workloads"))
import ps_train

from clusterkit import training
from clusterkit.training.progress import channel

PIECE = 4096  # bytes, written and synced at a time


class InPlace:
    """What a program does that was never killed while it wrote."""

    def __init__(self, network):
        self.variables = network.trainable_variables
        self.path = Path(training.checkpoint_dir(), "model.ckpt")

    def save(self, step):
        data = pickle.dumps((step, [variable.numpy() for variable in self.variables]))
        with self.path.open("wb", buffering=0) as file:
            for start in range(0, len(data), PIECE):
                file.write(data[start : start + PIECE])
                os.fsync(file)
                time.sleep(0.03)  # as long as a big model takes
        channel().send("checkpoint", step=step, path=str(self.path))

    def restore(self):
        step, path = 0, None
        if self.path.exists():
            step, values = pickle.loads(self.path.read_bytes())
            path = str(self.path)
            for variable, value in zip(self.variables, values, strict=True):
                variable.assign(value)
        channel().send("resumed", step=step, path=path)
        return step


training.Checkpointer = InPlace
ps_train.main()

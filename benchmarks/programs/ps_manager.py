"""The parameter-server workload, saved as scripts do it: with TensorFlow's `CheckpointManager`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[2] / "workloads"))
import ps_train

from clusterkit import training


class Managed:
    """In the place of `training.Checkpointer`."""

    def __init__(self, **trackables: Any) -> None:
        checkpoint = tf.train.Checkpoint(**trackables)
        self._manager = tf.train.CheckpointManager(checkpoint, training.checkpoint_dir(), max_to_keep=3)

    def restore(self) -> int:
        """Nothing is there: every turn begins in an empty directory."""
        self._manager.restore_or_initialize()
        return 0

    def save(self, step: int) -> None:
        """Save it at once."""
        with training.phase("checkpoint"):
            self._manager.save(step)


vars(training)["Checkpointer"] = Managed
ps_train.main()

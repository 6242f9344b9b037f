"""The parameter-server workload with a planted bug: it checkpoints, and forgets to restore."""

import sys
from pathlib import Path

import tensorflow  # noqa: F401 - so that it starts warm, as the workload does

sys.path.insert(0, str(Path(__file__).parents[2] / "workloads"))
import ps_train

from clusterkit import training

training.Checkpointer.restore = lambda self: 0
ps_train.main()

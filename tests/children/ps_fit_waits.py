"""workloads/ps_fit.py, whose first coordinator waits after its second epoch until it is killed."""

import runpy
import sys
import time
from pathlib import Path

import tensorflow  # noqa: F401 - as in ps_fit.py itself: what a program imports decides how it starts

from clusterkit import training

WORKLOADS = Path(__file__).parent.parent.parent / "workloads"


class Waits(training.Backup):
    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        if epoch == 2 and training.attempt() == 1:
            self.wait()  # the checkpoint of the second epoch is there, and told
            while True:
                time.sleep(60)


training.Backup = Waits
sys.path.insert(0, str(WORKLOADS))
runpy.run_path(str(WORKLOADS / "ps_fit.py"), run_name="__main__")

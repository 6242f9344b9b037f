"""Runs a workload that waits, at the first report of a step or one beyond it, until a file is there.

held.py STEP FILE WORKLOAD ...
"""

import runpy
import sys
import time
from pathlib import Path

import tensorflow  # noqa: F401 - so that it starts warm, as the workload does

from clusterkit import training

step, gate, workload = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sys.argv[:] = sys.argv[3:]
report = training.report


def held_report(done, **more):
    report(done, **more)
    while done >= step and not gate.exists():
        time.sleep(0.01)


training.report = held_report  # which the workloads look up at each call
sys.path.insert(0, str(Path(workload).resolve().parent))
runpy.run_path(workload, run_name="__main__")

"""A task of a training job, `profiled.py [SECONDS-FOR-A-STEP]`; a recorder is in the place of TensorFlow's profiler."""

import sys
import time
import types
from pathlib import Path

from clusterkit import training
from clusterkit.training import progress

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.02


def start(logdir):
    global where
    where = Path(logdir, "plugins/profile", str(time.time_ns()), "host.xplane.pb")


def stop():
    where.parent.mkdir(parents=True)
    where.write_text("recorded")


recorder = types.SimpleNamespace(start=start, stop=stop)
sys.modules["tensorflow"] = types.SimpleNamespace(profiler=types.SimpleNamespace(experimental=recorder))
if training.has_ps() and training.task_type() in ("worker", "ps"):
    progress.channel().send("ready")
    time.sleep(3600)
for step in range(1_000_000):
    training.report(step, loss=1 / (step + 1))
    time.sleep(seconds)

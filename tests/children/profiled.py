"""A task of a training job, `profiled.py [SECONDS-FOR-A-STEP]`; a recorder is in the place of TensorFlow's profiler.

With --some-steps, the time for a profile is not over before it has a step, however slow this process is.
"""

import argparse
import select
import sys
import threading
import time
import types
from pathlib import Path

from clusterkit import training
from clusterkit.training import profiler, progress

parser = argparse.ArgumentParser()
parser.add_argument("seconds", type=float, nargs="?", default=0.02)
parser.add_argument("--some-steps", action="store_true")
options = parser.parse_args()
where, stepped = None, threading.Event()


def select_late(*args):
    ready = select.select(*args)
    if not ready[0]:
        stepped.wait()
    return ready


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
if options.some_steps:
    profiler.select = types.SimpleNamespace(select=select_late)
for step in range(1_000_000):
    is_recorded = where is not None
    training.report(step, loss=1 / (step + 1))
    if is_recorded:
        stepped.set()
    time.sleep(options.seconds)

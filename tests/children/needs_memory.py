"""Runs a workload as held.py does, but a parameter server needs 64 MB more once the file is there.

needs_memory.py STEP FILE WORKLOAD ...
"""

import runpy
import sys
import time
from pathlib import Path

import tensorflow as tf

gate, join = Path(sys.argv[2]), tf.distribute.Server.join


def join_with_more(server):
    while not gate.exists():
        time.sleep(0.01)
    bytearray(64 << 20)
    join(server)


tf.distribute.Server.join = join_with_more
runpy.run_path(str(Path(__file__).with_name("held.py")), run_name="__main__")

"""To be imported by both workers of a gang: worker:0 ends after worker:1.

What still runs some seconds after worker:0's success is ended, and a busy machine may take as long.
"""

import atexit
import fcntl
import os
from pathlib import Path

from clusterkit import training

ENDS = os.open(Path(os.environ["CLUSTERKIT_RUN_DIR"], "ends"), os.O_WRONLY | os.O_CREAT)
if training.task() == "worker:1":
    fcntl.flock(ENDS, fcntl.LOCK_EX)  # until this process ends
elif training.task() == "worker:0":
    atexit.register(fcntl.flock, ENDS, fcntl.LOCK_EX)

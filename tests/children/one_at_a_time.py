"""Counts to 20, with a checkpoint every fifth step; fails while another run holds the file that it names."""

import fcntl
import json
import os
import sys
import time
from pathlib import Path

from clusterkit import training

is_first = os.environ["CLUSTERKIT_TASK"] == "worker:0"
if len(sys.argv) > 1 and is_first:
    own = Path(sys.argv[1]).open("w")
    try:
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"{sys.argv[1]} belongs to another run")
directory = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"])
directory.mkdir(parents=True, exist_ok=True)
saved = directory / "steps.json"
done = json.loads(saved.read_text()) if saved.exists() else 0
for step in range(done + 1, 21):
    time.sleep(0.02)
    training.report(step=step, loss=1.0 / step)
    if step % 5 == 0 and is_first:
        new = directory / "new.json"
        with new.open("w") as file:
            file.write(json.dumps(step))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, saved)

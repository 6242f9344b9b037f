"""A task that counts to a number, saves each count in the checkpoint directory, and continues from the last one.

counts_on.py LAST [PAUSE]
"""

import os
import sys
import time
from pathlib import Path

from clusterkit import training

last, pause = int(sys.argv[1]), float((sys.argv[2:] or ["0.05"])[0])
saved = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"]) / f"count-{os.environ['CLUSTERKIT_TASK'].replace(':', '-')}"
count = int(saved.read_text()) if saved.exists() else 0
print(f"from {count}", flush=True)
while count < last:
    time.sleep(pause)
    count += 1
    training.report(step=count, loss=1.0 / count)
    new = saved.with_suffix(".new")
    new.write_text(str(count))
    new.rename(saved)
print(f"counted to {count}", flush=True)

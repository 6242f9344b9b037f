"""Waits for the file `go` in the run directory, then writes 1 MB a second in short lines, and reports steps.

writes_steadily.py SECONDS
"""

import json
import os
import sys
import time
from pathlib import Path

go = Path(os.environ["CLUSTERKIT_RUN_DIR"], "go")
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
while not go.exists():
    time.sleep(0.02)
lines = (b"x" * 99 + b"\n") * 524
start = time.monotonic()
for step in range(1, int(float(sys.argv[1]) * 20) + 1):
    os.write(1, lines)
    os.write(progress, json.dumps({"kind": "progress", "attempt": 1, "step": step}).encode() + b"\n")
    time.sleep(max(0, start + step * 0.05 - time.monotonic()))

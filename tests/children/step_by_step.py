"""Takes steps, each of which lasts until a file of its number is there: `step_by_step.py STEPS DIRECTORY`."""

import json
import os
import sys
import time
from pathlib import Path

progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
attempt = int(os.environ["CLUSTERKIT_ATTEMPT"])
for step in range(1, int(sys.argv[1]) + 1):
    os.write(progress, json.dumps({"attempt": attempt, "kind": "progress", "step": step}).encode() + b"\n")
    while not Path(sys.argv[2], str(step)).exists():
        time.sleep(0.01)

"""Reports steps of a total and writes lines: `stepping.py TOTAL [ignore] [--until FILE]`.

`ignore` is for SIGTERM; the last step waits for the file.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

total = int(sys.argv[1])
if "ignore" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = Path(sys.argv[-1]) if "--until" in sys.argv else None
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
attempt = int(os.environ["CLUSTERKIT_ATTEMPT"])
for step in range(1, total + 1):
    while until and step == total and not until.exists():
        time.sleep(0.01)
    report = {"kind": "progress", "attempt": attempt, "step": step, "total": total}
    os.write(progress, json.dumps(report).encode() + b"\n")
    print(f"line {step}", flush=True)
    time.sleep(0.05)

"""Writes its step; on SIGTERM, takes half a second to save it, and exits with code 42. Later attempts succeed soon.

With an argument, worker:1 writes that many bytes once it is up.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
saved = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"], f"saved-{task}")
told = []


def send(**message):
    progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
    os.write(progress, json.dumps({"attempt": attempt, **message}).encode() + b"\n")
    os.close(progress)


signal.signal(signal.SIGTERM, lambda *_: told.append(True))
begun = int(saved.read_text()) if saved.exists() else 0
send(kind="ready")
send(kind="resumed", step=begun)
if task == "worker:1" and len(sys.argv) > 1:
    print("x" * int(sys.argv[1]), flush=True)
step = begun
while not told and not (attempt > 1 and step >= begun + 5):
    step += 1
    send(kind="progress", step=step)
    time.sleep(0.05)
if told:
    time.sleep(0.5)
    saved.write_text(str(step))
    print("saved", step, flush=True)
    sys.exit(42)

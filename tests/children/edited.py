"""A program to edit: it reports steps, counts its own checkpoints, and writes which versions of its files run.

    edited.py DIRECTORY

Its module `part`, or package, is another file to edit. Each attempt appends `task program part` to DIRECTORY/versions.
"""

import json
import os
import sys
import time
from pathlib import Path

import part

VERSION = 0

task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
saved = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"], "step.ckpt")


def send(**message):
    os.write(progress, json.dumps({"attempt": attempt, **message}).encode() + b"\n")


start = int(saved.read_text()) if saved.exists() else 0
send(kind="resumed", step=start, path=str(saved) if start else None)
with Path(sys.argv[1], "versions").open("a") as file:
    file.write(f"{task} {VERSION} {part.VERSION} {os.environ['CLUSTERKIT_RESTART_REASON']}\n")
for step in range(start + 1, 1_000_000):
    send(kind="progress", step=step)
    if task == "worker:0" and step % 5 == 0:
        half = saved.with_suffix(".half")
        half.write_text(str(step))
        half.replace(saved)
        send(kind="checkpoint", step=step, path=str(saved))
    time.sleep(0.02)

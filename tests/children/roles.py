"""A program that takes the roles of a training job without TensorFlow: it steps, checkpoints and resumes.

    roles.py [--steps N] [--step-time S] [--every N] [--fail TASK:ATTEMPT:STEP:CODE]... [--forget] [--until FILE]
             [--hold TASK:ATTEMPT:STEP]...

ps and parameter-server workers serve until they are ended; the others step, the leader checkpoints a number to
`step` in the checkpoint directory. `--fail worker:1:1:5:3` lets attempt 1 of worker:1 exit with code 3 at step 5;
a negative code is a signal to itself. `--hold worker:1:1:5` lets it wait before step 5 until something ends it.
`--forget`: never resume.
"""

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--step-time", type=float, default=0.02)
parser.add_argument("--every", type=int, default=5)
parser.add_argument("--fail", action="append", default=[])
parser.add_argument("--hold", action="append", default=[])
parser.add_argument("--forget", action="store_true")
parser.add_argument("--until", type=Path)  # the last step waits for this file
options = parser.parse_args()

task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
kind, index = task.split(":")
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
cluster = config.get("cluster", {})
leads = kind == "chief" or (kind == "worker" and index == "0" and "chief" not in cluster)
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)


def send(**message):
    os.write(progress, json.dumps({"attempt": attempt, **message}).encode() + b"\n")


def fail_at(step):
    for failure in options.fail:
        who, number, which, when, code = failure.split(":")
        if (f"{who}:{number}", int(which)) == (task, attempt) and step >= int(when):  # a checkpoint may be past it
            if int(code) < 0:
                os.kill(os.getpid(), -int(code))
                time.sleep(60)
            sys.exit(int(code))


if cluster and kind in cluster:  # bind the port as TensorFlow's server does
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("0.0.0.0", int(cluster[kind][int(index)].rpartition(":")[2])))
    server.listen()
send(kind="ready")
if "ps" in cluster and kind in ("ps", "worker"):
    step = 0
    while True:
        fail_at(step)
        step += 1
        time.sleep(options.step_time)

saved = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"], "step")
start = int(saved.read_text()) if saved.exists() and not options.forget else 0
if start or not options.forget:
    send(kind="resumed", step=start, path=str(saved) if start else None)
print(f"{task} goes from step {start} to {options.steps}", flush=True)
for step in range(start + 1, options.steps + 1):
    fail_at(step)
    while f"{task}:{attempt}:{step}" in options.hold:
        time.sleep(0.01)
    time.sleep(options.step_time)
    while options.until and step == options.steps and not options.until.exists():
        time.sleep(0.01)
    send(kind="progress", step=step, metrics={"loss": 1 / step})
    if leads and step % options.every == 0:
        part = saved.with_name(".step.part")
        part.write_text(str(step))
        part.replace(saved)
        send(kind="checkpoint", step=step, path=str(saved))
print(f"{task} is done", flush=True)

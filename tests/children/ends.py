"""A task that ends as it is told: by a code or a signal, early or late, below a shell, leaving daemons and half lines.

    ends.py PLAN RECORD

PLAN is a JSON file: for each task a list with what each attempt does. RECORD gets a line when an attempt begins and one
when it ends, just before it does: the task, the attempt, what happens, and the time of the machine's monotonic clock.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

plan, record = sys.argv[1:3]
task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
attempts = json.loads(Path(plan).read_text())[task]
do = attempts[min(attempt, len(attempts)) - 1]
channel = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)


def note(what):
    line = f"{task} {attempt} {what} {time.monotonic()}\n".encode()
    file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)


def send(**message):
    os.write(channel, json.dumps({"attempt": attempt, **message}).encode() + b"\n")


def leave_daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", do["daemon"]], {})
        os._exit(0)
    os.wait()


def end():
    if do["half"]:
        os.write(channel, b'{"attempt": 1, "kind": "progr')
    print(do["line"], flush=True)
    note(do["how"])
    if do["how"] < 0:
        os.kill(os.getpid(), -do["how"])
        time.sleep(60)
    os._exit(do["how"])


def serve():
    """Until the teardown, with SIGTERM or, where that is ignored, SIGKILL."""
    if do["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


if do["wrapped"] and len(sys.argv) == 3:  # a shell, which tells the end of its child as its own
    sys.exit(
        subprocess.run(["/bin/sh", "-c", f'"{sys.executable}" "{__file__}" "{plan}" "{record}" in; exit $?']).returncode
    )
note("begins")
send(kind="ready")
began = time.monotonic()
if do["daemon"]:
    leave_daemon()
for step in range(1, do["steps"] + 1):
    send(kind="progress", step=step)
if do["how"] is None:
    serve()
time.sleep(max(0, do["after"] - (time.monotonic() - began)))
end()

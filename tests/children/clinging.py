"""A task that clings to life: it ignores SIGTERM, and so do its children, which leave its group and its parent.

    clinging.py [SECONDS [FAILING_TASK]]

Every task binds its port as TensorFlow does, then starts a child in its own group, one in a session of its own,
and a daemon (forked twice, with an environment that tells nothing). All of them have forgotten the parent-death
signal. FAILING_TASK exits with code 1 after a fifth of the time, in its first attempt.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
failing = sys.argv[2] if len(sys.argv) > 2 else ""
CLING = "import ctypes, signal, time; signal.signal(15, signal.SIG_IGN); ctypes.CDLL(None).prctl(1, 0); time.sleep(60)"


def forget_parent():
    ctypes.CDLL(None).prctl(1, 0)


signal.signal(signal.SIGTERM, signal.SIG_IGN)
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
if config:
    kind, index = config["task"]["type"], config["task"]["index"]
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("0.0.0.0", int(config["cluster"][kind][index].rpartition(":")[2])))
    server.listen()
# An interpreter of its own is what a data worker is; the environment of the last one says nothing of the run but
# the home by which the tests find what is left.
subprocess.Popen([sys.executable, "-S", "-c", CLING])
subprocess.Popen([sys.executable, "-S", "-c", CLING], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        forget_parent()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        bare = {"CLUSTERKIT_HOME": os.environ["CLUSTERKIT_HOME"]}
        os.execve(sys.executable, [sys.executable, "-S", "-c", CLING], bare)
    os._exit(0)
os.wait()
first = os.environ["CLUSTERKIT_ATTEMPT"] == "1"
print("clinging", flush=True)
until = time.monotonic() + (seconds / 5 if first and os.environ["CLUSTERKIT_TASK"] == failing else seconds)
while time.monotonic() < until:
    time.sleep(0.01)
sys.exit(1 if first and os.environ["CLUSTERKIT_TASK"] == failing else 0)

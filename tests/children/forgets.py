"""A task and two children of it that ignore SIGTERM and forget the parent-death signal, one in a session of its own."""

import ctypes
import json
import os
import signal
import time


def cling():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(1, 0)


cling()
for own_session in (False, True):
    if os.fork() == 0:
        cling()
        if own_session:
            os.setsid()
        time.sleep(600)
ready = {"kind": "ready", "attempt": int(os.environ["CLUSTERKIT_ATTEMPT"])}
with open(os.environ["CLUSTERKIT_PROGRESS"], "w") as progress:  # noqa: PTH123
    progress.write(json.dumps(ready) + "\n")
time.sleep(600)

"""A task that says what it makes of SIGTERM: `obey` says its last words and ends, `ignore` goes on."""

import json
import os
import signal
import sys
import time

obeys = sys.argv[1] == "obey"


def on_term(number, frame):
    print("got SIGTERM", flush=True)
    if obeys:
        print("last words", flush=True)
        os._exit(0)


signal.signal(signal.SIGTERM, on_term)
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
os.write(progress, json.dumps({"kind": "ready", "attempt": int(os.environ["CLUSTERKIT_ATTEMPT"])}).encode() + b"\n")
while True:
    time.sleep(0.05)

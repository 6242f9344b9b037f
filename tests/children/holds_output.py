"""Exits 0 and leaves a process behind that holds the output open for an hour: `holds_output.py group|session`."""

import os
import sys
import time

print("from the task", flush=True)
ready, told = os.pipe()
if os.fork() == 0:
    if sys.argv[1] == "session":
        os.setsid()
    print("from below", flush=True)
    os.write(told, b"!")
    time.sleep(3600)
os.read(ready, 1)

"""Keeps its main thread busy in one of three ways until the test has had enough: `busy.py read|sleep|spin`.

"busy" is written where both threads are inside the functions that the test looks for.
"""

import sys
import threading
import time
from pathlib import Path

there = threading.Event()
stop = threading.Event()


def a_thread():
    there.set()
    stop.wait()


def busily_read():
    print("busy", flush=True)
    with Path("pipe").open("rb", buffering=0) as pipe:
        assert pipe.read(100) == b"enough"


def busily_sleep():
    print("busy", flush=True)
    while not Path("pipe.done").exists():
        began = time.monotonic()
        time.sleep(1.0)
        assert time.monotonic() - began >= 1.0


def busily_spin():
    print("busy", flush=True)
    while not Path("pipe.done").exists():
        pass


thread = threading.Thread(target=a_thread)
thread.start()
there.wait()
{"read": busily_read, "sleep": busily_sleep, "spin": busily_spin}[sys.argv[1] if sys.argv[1:] else "read"]()
stop.set()
thread.join()
print("done", flush=True)

"""Keeps its main thread busy in one of three ways until the test has had enough: `busy.py read|sleep|spin`."""

import sys
import threading
import time
from pathlib import Path

stop = threading.Event()


def a_thread():
    stop.wait()


def busily_read():
    with Path("pipe").open("rb", buffering=0) as pipe:
        assert pipe.read(100) == b"enough"


def busily_sleep():
    began = time.monotonic()
    time.sleep(3.0)
    assert time.monotonic() - began >= 3.0


def busily_spin():
    while not Path("pipe.done").exists():
        pass


thread = threading.Thread(target=a_thread)
thread.start()
print("busy", flush=True)
{"read": busily_read, "sleep": busily_sleep, "spin": busily_spin}[sys.argv[1] if sys.argv[1:] else "read"]()
stop.set()
thread.join()
print("done", flush=True)

"""Runs debugpy in a task, for an editor to connect to: --debugpy.

Loaded by path, before the program: standard library only, but for debugpy, which the tasks' interpreter has.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
import time
from typing import Any

LOOK_EVERY = 0.5  # seconds between two looks whether an editor is attached
LISTENS_WITHIN = 5.0  # seconds for debugpy's thread, which nobody can connect to before
LOOPBACK = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"  # as the kernel writes it


def start(module: object, load: Any) -> None:
    """Listen on the loopback interface, report the address, and wait for the editor if that is asked for."""
    port, _, wait = os.environ["CLUSTERKIT_DEBUGPY"].partition(",")
    debugger = load("task/debugger")
    try:
        debugpy = importlib.import_module("debugpy")
        with socket.create_server(("127.0.0.1", int(port))):
            pass  # if the port is taken, debugpy would wait for ever
        debugpy.configure(subProcess=False)
        # Without an adapter's process, which would outlive the task.
        _, port = debugpy.listen(("127.0.0.1", int(port)), in_process_debug_adapter=True)
        wait_for_listener(int(port))
    except Exception as error:  # it is another package's
        print(f"clusterkit: debugpy does not start: {error}. The task continues without it.", file=sys.stderr)
        return
    debugger.report("editor", port=int(port), waits=bool(wait))
    if wait:
        debugpy.wait_for_client()
    watcher = threading.Thread(target=watch, args=(debugpy, debugger), name="clusterkit-editor", daemon=True)
    watcher.pydev_do_not_trace = True  # type: ignore[attr-defined]
    watcher.start()


def wait_for_listener(port: int) -> None:
    """Wait until something listens at this port of the loopback interface: debugpy's thread has only bound it."""
    until = time.monotonic() + LISTENS_WITHIN
    while time.monotonic() < until:
        with open("/proc/self/net/tcp") as file:
            if any(line.split()[1:4:2] == [f"{LOOPBACK}:{port:04X}", "0A"] for line in file):
                return
        time.sleep(0.005)


def watch(debugpy: Any, debugger: Any) -> None:
    """Report when an editor comes and goes, until the task ends."""
    attached = False
    while True:
        if bool(debugpy.is_client_connected()) != attached:
            attached = not attached
            debugger.report("debugger", held=attached, editor=True)
        time.sleep(LOOK_EVERY)

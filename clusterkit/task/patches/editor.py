"""Runs debugpy in a task so that an editor can attach (--debugpy).

debugpy listens before the program runs. It must be installed for the tasks' interpreter.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
import time
from typing import Any

POLL_EVERY = 0.5  # seconds between checks whether an editor is attached
LISTENS_WITHIN = 5.0  # seconds; the time limit for debugpy's thread to listen
LOOPBACK = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"  # 127.0.0.1 in /proc/net/tcp


def start(module: object, load: Any) -> None:
    """Listen on the loopback interface, report the port, and wait for an editor if the run's options say so."""
    port, _, wait = os.environ["CLUSTERKIT_DEBUGPY"].partition(",")
    debugger = load("task/debugger")
    try:
        debugpy = importlib.import_module("debugpy")
        with socket.create_server(("127.0.0.1", int(port))):
            pass  # raises OSError if the port is in use; debugpy would then wait forever
        guard(load("task/peers"))
        debugpy.configure(subProcess=False)
        # debugpy's adapter runs in this process, since an adapter in a process of its own would outlive the task.
        _, port = debugpy.listen(("127.0.0.1", int(port)), in_process_debug_adapter=True)
        wait_for_listener(int(port))
    except Exception as error:  # debugpy may raise anything
        print(f"clusterkit: debugpy does not start: {error}. The task continues without it.", file=sys.stderr)
        return
    debugger.report("editor", port=int(port), waits=bool(wait))
    if wait:
        debugpy.wait_for_client()
    watcher = threading.Thread(target=watch, args=(debugpy, debugger), name="clusterkit-editor", daemon=True)
    watcher.pydev_do_not_trace = True  # type: ignore[attr-defined]
    watcher.start()


def guard(peers: Any) -> None:
    """Make debugpy accept only processes of this user or of root, since an editor can run any code in the task.

    Raises RuntimeError if the installed version of debugpy does not open its port in the expected way.
    """
    importlib.import_module("debugpy.server.api")
    pydevd: Any = sys.modules["pydevd"]
    try:
        create = pydevd.create_server_socket
        opens = "create_server_socket" in pydevd.PyDB._WaitForConnectionThread.run.__code__.co_names
    except AttributeError:
        opens = False
    if not opens:
        raise RuntimeError("this version of it lets every user of this machine attach; install debugpy 1.8")

    def create_guarded(host: str, port: int) -> socket.socket:
        listener: socket.socket = create(host=host, port=port)
        return EditorListener(peers, listener)

    pydevd.create_server_socket = create_guarded


class EditorListener(socket.socket):
    """A listening socket that accepts connections from processes of this user or of root, and closes all others."""

    def __init__(self, peers: Any, listener: socket.socket) -> None:
        super().__init__(listener.family, listener.type, listener.proto, fileno=listener.detach())
        self.peers = peers
        self.refused: set[int] = set()

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            connection, address = super().accept()
            uid = self.peers.uid_of(connection)
            if uid in (os.getuid(), 0):
                return connection, address
            connection.close()
            if uid is not None and uid not in self.refused:
                self.refused.add(uid)
                print(
                    f"clusterkit: the user {uid} tried to attach to this task's debugpy, and was refused.",
                    file=sys.stderr,
                )


def wait_for_listener(port: int) -> None:
    """Wait until debugpy listens on this loopback port. When `debugpy.listen` returns, the port may not be open yet."""
    until = time.monotonic() + LISTENS_WITHIN
    while time.monotonic() < until:
        with open("/proc/self/net/tcp") as file:
            if any(line.split()[1:4:2] == [f"{LOOPBACK}:{port:04X}", "0A"] for line in file):
                return
        time.sleep(0.005)


def watch(debugpy: Any, debugger: Any) -> None:
    """Report when an editor attaches and detaches, until the task ends."""
    attached = False
    while True:
        if bool(debugpy.is_client_connected()) != attached:
            attached = not attached
            debugger.report("debugger", held=attached, editor=True)
        time.sleep(POLL_EVERY)

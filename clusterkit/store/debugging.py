"""The connection to a task that is held in the debugger: lines of JSON, as in task/debug_session.py."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from clusterkit.store.directory import RunDirectory
from clusterkit.words.model import Task

WITHIN = 5.0  # seconds for the task's process to answer
AGAIN = 0.05  # seconds between two interrupts of a prompt
ANSWERED_WITHIN = 2.0  # seconds for what a word can be completed to
LONGEST = 1 << 24  # bytes of a message; what is longer is not read


class DebuggerConnection:
    """Reads in a thread, so that the end of the connection can interrupt a prompt."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._file = connected.makefile("rb")
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._main = threading.main_thread().ident
        self.prompting = False  # the main thread waits for the user, until it is interrupted
        self.over = False  # nothing more will come
        self._thread = threading.Thread(target=self._read, name="debugger", daemon=True)
        self._thread.start()

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        """The next message; None at the end, or after `timeout` seconds."""
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)  # for whoever asks again
        return message

    def send(self, **message: object) -> None:
        """Send a message. If the task is gone, its messages end."""
        with suppress(OSError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def matches(self, line: str, begin: int, end: int) -> list[str]:
        """The task's completions of a word."""
        self.send(complete=[line, begin, end])
        message = self.next(ANSWERED_WITHIN) or {}
        found = message.get("matches")
        return [str(one) for one in found] if isinstance(found, list) else []

    def close(self) -> None:
        self.prompting = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(WITHIN)
        self._file.close()
        self._socket.close()

    def _read(self) -> None:
        try:
            while line := self._file.readline(LONGEST):
                with suppress(ValueError, RecursionError):  # an interrupt may have cut it short
                    message = json.loads(line)
                    if isinstance(message, dict):
                        self._messages.put(message)
        except (OSError, ValueError):  # the latter: the file was closed
            pass
        finally:
            self.over = True
            self._messages.put(None)
            while self.prompting and self._main is not None:  # again: one that comes just before it reads is lost
                signal.pthread_kill(self._main, signal.SIGINT)  # nothing else ends a prompt
                time.sleep(AGAIN)


def connect(run: RunDirectory, task: Task) -> DebuggerConnection | None:
    """Connect to a task's debugger; None if the task does not listen."""
    path = run.debugger(task)
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connected.settimeout(WITHIN)
        connected.connect(f"/proc/self/fd/{directory}/{path.name}")  # of any length, see task/debug_session.py
        connected.settimeout(None)
    except OSError:
        connected.close()
        return None
    finally:
        os.close(directory)
    return DebuggerConnection(connected)

"""The connection to a task that is stopped in the debugger: JSON lines, as defined in task/debug_session.py."""

from __future__ import annotations

import json
import queue
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from clusterkit.store.directory import RunDirectory
from clusterkit.store.trust import refuse_foreign
from clusterkit.system.files import short_path
from clusterkit.system.ownership import check_peer
from clusterkit.words.model import Task

CONNECT_WITHIN = 5.0  # seconds; the timeout for connecting and closing
RETRY_EVERY = 0.05  # seconds between attempts to interrupt the prompt
ANSWERED_WITHIN = 2.0  # seconds; the timeout for the completions of a word
LONGEST = 1 << 24  # bytes; the maximum size of a message


class DebuggerConnection:
    """Reads a task's messages in a thread, so that the end of the connection can interrupt the user's prompt."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._file = connected.makefile("rb")
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._main_thread = threading.main_thread().ident
        self.is_prompting = False  # True while the main thread is waiting for the user's input
        self.is_over = False  # True once the task has closed the connection
        self._thread = threading.Thread(target=self._read, name="debugger", daemon=True)
        self._thread.start()

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Return the next message, or None if the connection has ended or after `timeout` seconds."""
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)  # so that the next call of `next` returns None too
        return message

    def send(self, **message: object) -> None:
        """Send a message. If the task is gone, do nothing: `next` will return None."""
        with suppress(OSError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def matches(self, line: str, begin: int, end: int) -> list[str]:
        """Return the task's completions for a word, which is the part of `line` from `begin` to `end`."""
        self.send(complete=[line, begin, end])
        message = self.next(ANSWERED_WITHIN) or {}
        found = message.get("matches")
        return [str(one) for one in found] if isinstance(found, list) else []

    def close(self) -> None:
        self.is_prompting = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(CONNECT_WITHIN)
        self._file.close()
        self._socket.close()

    def _read(self) -> None:
        try:
            while line := self._file.readline(LONGEST):
                with suppress(ValueError, RecursionError):  # an interrupt may have truncated the line
                    message = json.loads(line)
                    if isinstance(message, dict):
                        self._messages.put(message)
        except (OSError, ValueError):  # ValueError: the file was closed
            pass
        finally:
            self.is_over = True
            self._messages.put(None)
            while self.is_prompting and self._main_thread is not None:  # retry, since an early signal is lost
                signal.pthread_kill(self._main_thread, signal.SIGINT)  # only a signal can end the prompt
                time.sleep(RETRY_EVERY)


def connect(run: RunDirectory, task: Task) -> DebuggerConnection | None:
    """Connect to a task's debugger; None if the task is not listening.

    Raises RunDirectoryError if other users own the run's directory or can write to it.
    """
    refuse_foreign(run)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connected.settimeout(CONNECT_WITHIN)
        with short_path(run.debugger(task)) as short:
            connected.connect(short)
        check_peer(connected)
        connected.settimeout(None)
    except OSError:
        connected.close()
        return None
    return DebuggerConnection(connected)

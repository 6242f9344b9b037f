"""The connection from a task's debugger to `clusterkit debug` during one stop: lines of JSON over a Unix socket.

The session sends `{"out": text}`, `{"prompt": text}`, `{"matches": [...]}`, and `{"left": reason}` at the end. A line
can be incomplete if SIGINT interrupts the write. The client sends `{"line": text}`, `{"complete": [line, begin, end]}`
and `{"interrupt": true}`. The session ends when the client disconnects.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LONGEST = 1 << 20  # bytes; a client that sends a longer line is disconnected
MOST_WAITING = 1000  # unread messages; a client that sends more is disconnected
CHUNK = 1 << 16
INTERRUPT = {"interrupt": True}  # stands for an interrupt in the queue of messages; recognized by identity


class DebugSession:
    """Serves one client until `close` is called or the client disconnects; in the latter case, calls `deserted`."""

    def __init__(self, path: str, deserted: Callable[[], None]) -> None:
        """Listen on a Unix socket at `path`. Raises OSError."""
        self.path = path
        self.deserted = deserted
        self.listener = listen(path)
        self.client: socket.socket | None = None
        # Each item is the number of interrupts before a message, and the message: None if the client has disconnected.
        # SimpleQueue is written in C, so an exception of a signal handler can't leave it in an inconsistent state.
        self.lines = queue.SimpleQueue[tuple[int, dict[str, Any] | None]]()
        self.connected = threading.Event()
        self.closing = False
        self.interruptible = False  # True once the debugger handles SIGINT, which only the main thread's debugger does
        self.interrupts = 0  # the number of interrupts that the client has sent
        self.raised = 0  # the number of the last interrupt that the debugger's thread has handled
        self.in_flight = False  # True from the sending of a SIGINT until the debugger's thread has handled it
        self.is_receiving = False  # True while the debugger's thread takes a message; an exception would lose it
        self.is_incomplete = False  # True if an interrupt may have cut off the last message that was sent
        self.lock = threading.Lock()
        self.wake, self.woken = socket.socketpair()
        self.thread = threading.Thread(target=self._serve, name="clusterkit-debugger", daemon=True)
        self.thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        self.thread.start()

    def send(self, **message: object) -> None:
        """Send the client a message, once a client has connected; do nothing if the client has disconnected."""
        self.connected.wait()
        if (client := self.client) is not None:
            line = b"\n" * self.is_incomplete + json.dumps(message).encode() + b"\n"
            self.is_incomplete = True
            with suppress(OSError):
                client.sendall(line)
            self.is_incomplete = False

    def next(self) -> dict[str, Any] | None:
        """Return the client's next message; None once the client has disconnected.

        Raises KeyboardInterrupt if the client interrupts the program.
        """
        while True:
            self.is_receiving = True
            number, message = self.lines.get()
            self.is_receiving = False
            if message is None:
                self.lines.put((number, None))  # makes the next call of `next` return None too
                return None
            if message is INTERRUPT:
                if self.raised < number:
                    self.raised = number
                    raise KeyboardInterrupt
            elif number == self.interrupts:  # otherwise a later interrupt has cancelled this message
                return message

    def claim(self) -> bool:
        """Return whether the handler of SIGINT has to handle the last interrupt; otherwise, `next` does or did so."""
        if self.is_receiving or self.raised == self.interrupts:
            return False
        self.raised = self.interrupts
        return True

    def close(self, why: str) -> None:
        """End the session: remove the socket, and send the client the reason `why`."""
        with self.lock:
            self.closing = True
        until = time.monotonic() + 1.0
        while self.in_flight and time.monotonic() < until:  # wait until the main thread has handled SIGINT
            time.sleep(0.001)
        with suppress(OSError):  # before `left` is sent, after which the client may connect to the next session
            os.unlink(self.path)
        self.wake.close()
        self.thread.join(2.0)
        self.woken.close()
        if self.client is not None:
            self.client.settimeout(1.0)  # so that a client that does not read can't block the task
            self.send(left=why)
            self.client.close()

    def _serve(self) -> None:
        try:
            received = b""
            while not self.closing:
                sockets = [one for one in (self.listener, self.woken, self.client) if one is not None]
                poller = select.poll()
                for one in sockets:
                    poller.register(one, select.POLLIN)
                ready = {number for number, _ in poller.poll()}
                if self.woken.fileno() in ready:
                    return
                if self.listener.fileno() in ready:
                    self._accept()
                elif self.client is not None and self.client.fileno() in ready:
                    data = self.client.recv(CHUNK)
                    *lines, received = (received + data).split(b"\n")
                    if not data or len(received) > LONGEST or self.lines.qsize() > MOST_WAITING:
                        return
                    for line in lines:
                        self._take(line)
        except OSError:
            pass
        finally:
            self.listener.close()
            if self.client is not None and not self.closing:
                with suppress(OSError):  # the client has sent too much: disconnect
                    self.client.shutdown(socket.SHUT_RDWR)
            self.lines.put((self.interrupts, None))
            self.connected.set()
            if not self.closing:
                self.deserted()

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        if self.client is not None or not is_own(connection):
            with suppress(OSError):
                connection.settimeout(1.0)
                connection.sendall(b'{"busy": true}\n')
            connection.close()
            return
        self.client = connection
        self.connected.set()

    def _take(self, line: bytes) -> None:
        """Handle a line from the client; ignore a line that is not a valid message."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        if message.get("interrupt") is True:
            self._interrupt()
        elif isinstance(message.get("line"), str) or isinstance(message.get("complete"), list):
            self.lines.put((self.interrupts, message))

    def _interrupt(self) -> None:
        with self.lock:
            if self.closing or self.in_flight or not self.interruptible:
                return
            self.in_flight = True
        self.interrupts += 1  # cancels the messages that are still in the queue
        self.lines.put((self.interrupts, INTERRUPT))
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)


def listen(path: str) -> socket.socket:
    """Return a Unix socket that listens at a path of any length and accepts only this user. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = -1
    try:
        directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        with suppress(FileNotFoundError):
            os.unlink(path)
        # The path is given relative to the directory's descriptor: a Unix socket's address has at most 107 bytes.
        listener.bind(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        os.chmod(path, 0o600)
        listener.listen(8)
    except BaseException:
        listener.close()
        raise
    finally:
        if directory >= 0:
            os.close(directory)
    return listener


def is_own(connection: socket.socket) -> bool:
    """Return whether the peer is a process of this user or of root."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", raw)[1] in (os.getuid(), 0)

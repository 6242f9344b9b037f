"""The debugger's connection to its client during one stop: lines of JSON over a Unix socket.

Loaded by path: standard library only. To the client: `{"out": text}`, `{"prompt": text}`, `{"matches": [...]}`, and
`{"left": why}` at the end; an interrupt may cut a line short. From the client: `{"line": text}`,
`{"complete": [line, begin, end]}` and `{"interrupt": true}`. A client that hangs up has left.
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

LONGEST = 1 << 20  # bytes of a line; a client that sends a longer one is disconnected
MOST_WAITING = 1000  # lines that may wait for the program; a client that sends more is disconnected
CHUNK = 1 << 16
INTERRUPT = {"interrupt": True}  # compared by identity, so that no client's message is taken for it


class DebugSession:
    """Serves one client, whose messages a thread reads; when the client hangs up, the session is over.

    The thread then calls `deserted`, while the program may run until its next stop.
    """

    def __init__(self, path: str, deserted: Callable[[], None]) -> None:
        """Listen at the path. Raises OSError."""
        self.path = path
        self.deserted = deserted
        self.listener = listen(path)
        self.client: socket.socket | None = None
        # Messages, each with the number of interrupts before it. In C, so that no interrupt can leave it half changed.
        self.lines = queue.SimpleQueue[tuple[int, dict[str, Any] | None]]()
        self.connected = threading.Event()
        self.closing = False
        self.interruptible = False  # whether the debugger runs in the main thread and handles SIGINT
        self.interrupts = 0  # those that the client has sent
        self.raised = 0  # the number of the last one that the debugger's thread has handled
        self.in_flight = False  # an interrupt has been sent to that thread and not been handled
        self.taking = False  # that thread takes a line, which would be lost if its signal handler raised now
        self.torn = False  # an interrupt came while a message was sent, so a part of the message may be missing
        self.lock = threading.Lock()
        self.wake, self.woken = socket.socketpair()
        self.thread = threading.Thread(target=self._serve, name="clusterkit-debugger", daemon=True)
        self.thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        self.thread.start()

    def send(self, **message: object) -> None:
        """Send a message once a client has connected; do nothing if it has gone."""
        self.connected.wait()
        if (client := self.client) is not None:
            line = b"\n" * self.torn + json.dumps(message).encode() + b"\n"
            self.torn = True
            with suppress(OSError):
                client.sendall(line)
            self.torn = False

    def next(self) -> dict[str, Any] | None:
        """Wait for the client's next message; None once it has gone. Raises KeyboardInterrupt if it interrupts."""
        while True:
            self.taking = True
            number, message = self.lines.get()
            self.taking = False
            if message is None:
                self.lines.put((number, None))  # for the next call
                return None
            if message is INTERRUPT:
                if self.raised < number:
                    self.raised = number
                    raise KeyboardInterrupt
            elif number == self.interrupts:  # else a later interrupt has cancelled this message
                return message

    def claim(self) -> bool:
        """Whether the signal handler that asks has to act on the last interrupt; else `next` raises it, or has done."""
        if self.taking or self.raised == self.interrupts:
            return False
        self.raised = self.interrupts
        return True

    def close(self, why: str) -> None:
        """Send the client the end of the session, and remove the socket."""
        with self.lock:
            self.closing = True
        until = time.monotonic() + 1.0
        while self.in_flight and time.monotonic() < until:  # the main thread, perhaps this one, is about to handle it
            time.sleep(0.001)
        with suppress(OSError):  # first, since the client may look for the next stop once this one is over
            os.unlink(self.path)
        self.wake.close()
        self.thread.join(2.0)
        self.woken.close()
        if self.client is not None:
            self.client.settimeout(1.0)  # the client's process may be stopped
            self.send(left=why)
            self.client.close()

    def _serve(self) -> None:
        try:
            received = b""
            while not self.closing:
                known = [one for one in (self.listener, self.woken, self.client) if one is not None]
                ready = select.poll()
                for one in known:
                    ready.register(one, select.POLLIN)
                numbers = {number for number, _ in ready.poll()}
                if self.woken.fileno() in numbers:
                    return
                if self.listener.fileno() in numbers:
                    self._accept()
                elif self.client is not None and self.client.fileno() in numbers:
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
                with suppress(OSError):  # so that a client that is disconnected for what it sent notices
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
        """Handle a line from the client; ignore it if it is not a message."""
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
        self.interrupts += 1  # cancels earlier messages that have not been taken
        self.lines.put((self.interrupts, INTERRUPT))
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)


def listen(path: str) -> socket.socket:
    """Listen at a path of any length, for this user alone. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = -1
    try:
        directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        with suppress(FileNotFoundError):
            os.unlink(path)
        # Through the descriptor, since the address of a Unix socket has 107 bytes at most.
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
    """Whether the process at the other end is this user's, or root's."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", raw)[1] in (os.getuid(), 0)

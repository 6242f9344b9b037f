"""One stop in the debugger as its client sees it: a Unix socket over which lines of JSON go both ways.

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

LONGEST = 1 << 20  # bytes of a line; whoever sends a longer one is disconnected
MOST_WAITING = 1000  # lines that may wait for the program; a client that sends more is disconnected
CHUNK = 1 << 16
INTERRUPT = {"interrupt": True}  # among the lines, it and no message that is like it


class Session:
    """Serves one client at a time; when it hangs up, the session is over. Reads in a thread of its own.

    There, `deserted` is called when nobody can give commands any more, though the program may run until its next stop.
    """

    def __init__(self, path: str, deserted: Callable[[], None]) -> None:
        """Listen at this path, for this user. Raises OSError."""
        self.path = path
        self.deserted = deserted
        self.listener = listen(path)
        self.client: socket.socket | None = None
        # Each with how many interrupts came before it. In C: an interrupt can't come in the middle of it.
        self.lines = queue.SimpleQueue[tuple[int, dict[str, Any] | None]]()
        self.connected = threading.Event()
        self.closing = False
        self.interruptible = False  # the debugger's thread is the main one, and takes SIGINT
        self.interrupts = 0  # of the client's
        self.raised = 0  # the last of them that the debugger's thread has taken notice of
        self.in_flight = False  # an interrupt is on its way to it
        self.taking = False  # it takes a line, which would be lost with what is raised now
        self.torn = False  # an interrupt came while a message was sent, so that a part of it may be missing
        self.lock = threading.Lock()
        self.wake, self.woken = socket.socketpair()
        self.thread = threading.Thread(target=self._serve, name="clusterkit-debugger", daemon=True)
        self.thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
        self.thread.start()

    def send(self, **message: object) -> None:
        """Send a message, once there is a client. Nothing happens if it has gone."""
        self.connected.wait()
        if (client := self.client) is not None:
            line = b"\n" * self.torn + json.dumps(message).encode() + b"\n"
            self.torn = True
            with suppress(OSError):
                client.sendall(line)
            self.torn = False

    def next(self) -> dict[str, Any] | None:
        """Wait for the client's next message; None once it has gone. Raises KeyboardInterrupt for its interrupts."""
        while True:
            self.taking = True
            number, message = self.lines.get()
            self.taking = False
            if message is None:
                self.lines.put((number, None))  # for whoever asks again
                return None
            if message is INTERRUPT:
                if self.raised < number:
                    self.raised = number
                    raise KeyboardInterrupt
            elif number == self.interrupts:  # else one has come since, and this is what it interrupts
                return message

    def claim(self) -> bool:
        """Whether the last interrupt is the asking handler's to act upon; else `next` raises it, or has done so."""
        if self.taking or self.raised == self.interrupts:
            return False
        self.raised = self.interrupts
        return True

    def close(self, why: str) -> None:
        """Tell the client that the session is over, and remove the socket."""
        with self.lock:
            self.closing = True
        until = time.monotonic() + 1.0
        while self.in_flight and time.monotonic() < until:  # its handler runs in the main thread, which may be this one
            time.sleep(0.001)
        with suppress(OSError):  # first: the client may look for the next stop as soon as it knows
            os.unlink(self.path)
        self.wake.close()
        self.thread.join(2.0)
        self.woken.close()
        if self.client is not None:
            self.client.settimeout(1.0)  # it may be stopped
            self.send(left=why)
            self.client.close()

    def _serve(self) -> None:
        """Accept and read until the session is closed."""
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
                with suppress(OSError):  # a client that is disconnected for what it sent is to notice
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
        """Take a message. What is none is ignored."""
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
        self.interrupts += 1  # what came before and has not begun is dropped
        self.lines.put((self.interrupts, INTERRUPT))
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)


def listen(path: str) -> socket.socket:
    """Listen at a path of any length, in a directory that belongs to this user alone. Raises OSError."""
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

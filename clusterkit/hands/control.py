"""The control socket: a small JSON-RPC server in a thread of its own.

Requests become events in the supervisor's inbox. Subscriptions are read from the journal file, at each client's own
pace: a snapshot and what follows it are one stream, and a slow client costs one chunk of memory and nobody's time.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterkit.hands.control_socket import listen
from clusterkit.rules import protocol
from clusterkit.rules.protocol import Call, RpcError
from clusterkit.words.actions import Answer
from clusterkit.words.events import Requested, Verb
from clusterkit.words.model import Task

CHUNK = 1 << 16
LONGEST_PROFILE = 3600.0  # seconds
Post = Callable[[Requested], None]


@dataclass(slots=True)
class _Client:
    connection: socket.socket
    received: bytes = b""
    unsent: bytearray = field(default_factory=bytearray)
    journal: int | None = None  # the offset up to which a subscriber has been served
    leaving: bool = False  # cut off as soon as the error is sent


class ControlServer:
    """Serves any number of clients. None of them can delay another, or the supervisor."""

    def __init__(self, run: Path, greeting: dict[str, Any], post: Post) -> None:
        self._journal = run / "journal.jsonl"
        self._greeting = {"protocol": protocol.PROTOCOL, **greeting}
        self._post = post
        self._socket, self._unlink = listen(run)
        self._selector = selectors.DefaultSelector()
        self._bell, self._ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._clients: dict[int, _Client] = {}
        self._lock = threading.Lock()
        self._asking: dict[int, tuple[_Client, int | str | None]] = {}
        self._answers: list[Answer] = []
        self._count = 0
        self._followed = False  # set before a subscriber's first look at the journal, so that it misses nothing
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def answer(self, answer: Answer) -> None:
        """Send a client what the machine said to its request. For the supervisor's thread."""
        with self._lock:
            self._answers.append(answer)
        self._wake()

    def wake(self) -> None:
        """The journal has grown. Costs nothing while nobody follows it."""
        if self._followed:
            self._wake()

    def stop(self) -> None:
        """Send what the clients take at once, and close. A subscriber reads the rest in the journal itself."""
        self._stopped = True
        self._wake()
        self._thread.join()
        self._socket.close()
        os.close(self._bell)
        os.close(self._ring)
        self._unlink()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._ring, b"!")

    def _run(self) -> None:
        while not self._stopped:
            for key, mask in self._selector.select():
                if key.fileobj is self._socket:
                    self._accept()
                elif key.fd == self._bell:
                    self._answer_bell()
                elif client := self._clients.get(key.fd):
                    self._serve(client, mask)
        self._answer_bell()
        for client in list(self._clients.values()):
            self._drop(client)
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        if _peer_uid(connection) not in (os.getuid(), 0):
            connection.close()
            return
        connection.setblocking(False)
        client = _Client(connection)
        self._clients[connection.fileno()] = client
        self._selector.register(connection, selectors.EVENT_READ)

    def _answer_bell(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._bell, 4096)
        with self._lock:
            answers, self._answers = self._answers, []
        for answer in answers:
            client, call_id = self._asking.pop(answer.request)
            if call_id is None or client.connection.fileno() < 0:
                continue
            if answer.problem is not None:
                self._send(client, protocol.failure(RpcError(protocol.REFUSED, answer.problem, call_id)))
            else:
                result = {"request": answer.request, "tasks": [str(task) for task in answer.tasks]}
                self._send(client, protocol.answer(call_id, result))
        for client in list(self._clients.values()):
            if client.journal is not None:
                self._push(client)

    def _serve(self, client: _Client, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._push(client)
        if mask & selectors.EVENT_READ and client.connection.fileno() >= 0:
            self._receive(client)

    def _receive(self, client: _Client) -> None:
        try:
            data = client.connection.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(client)
            return
        *lines, client.received = (client.received + data).split(b"\n")
        for line in lines:
            if not client.leaving:
                self._handle(client, line)
        if len(client.received) > protocol.LONGEST:
            self._cut_off(client, RpcError(protocol.INVALID_REQUEST, "The line is longer than a request can be."))

    def _handle(self, client: _Client, line: bytes) -> None:
        try:
            self._dispatch(client, protocol.parse_call(line))
        except RpcError as error:
            if error.code == protocol.INVALID_PARAMS:
                self._send(client, protocol.failure(error))
            else:
                self._cut_off(client, error)

    def _dispatch(self, client: _Client, call: Call) -> None:
        if call.method == "hello":
            self._send(client, protocol.answer(call.id, self._greeting))
        elif call.method == "subscribe":
            offset = call.params.get("from", 0)
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                raise RpcError(protocol.INVALID_PARAMS, "`from` is an offset in the journal, in bytes.", call.id)
            client.journal = offset
            self._followed = True
            self._send(client, protocol.answer(call.id, {}))
        elif call.method in set(Verb):
            self._count += 1
            event = _requested(self._count, call)
            self._asking[self._count] = (client, call.id)
            self._post(event)
        else:
            raise RpcError(protocol.METHOD_NOT_FOUND, f"There is no method {call.method[:40]!r}.", call.id)

    def _cut_off(self, client: _Client, error: RpcError) -> None:
        client.leaving = True
        client.journal, client.received = None, b""
        self._send(client, protocol.failure(error))

    def _send(self, client: _Client, line: bytes) -> None:
        if len(client.unsent) > protocol.LONGEST * 16:  # asks and asks, and never reads
            self._drop(client)
            return
        client.unsent += line
        self._push(client)

    def _push(self, client: _Client) -> None:
        """Send until the client takes no more, reading on in the journal for a subscriber."""
        while True:
            if not client.unsent and client.journal is not None:
                self._read_journal(client)
            if not client.unsent:
                break
            try:
                del client.unsent[: client.connection.send(client.unsent)]
            except BlockingIOError:
                break
            except OSError:
                self._drop(client)
                return
        if client.leaving and not client.unsent:
            self._drop(client)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        self._selector.modify(client.connection, wanted)

    def _read_journal(self, client: _Client) -> None:
        assert client.journal is not None
        with self._journal.open("rb") as file:
            file.seek(client.journal)
            data = file.read(CHUNK)
        *lines, rest = data.split(b"\n")
        for line in lines:
            client.journal += len(line) + 1
            # The event is in the journal as JSON already; it goes out as it is.
            client.unsent += b'{"jsonrpc":"2.0","method":"event","params":{"offset":%d,"event":%b}}\n' % (
                client.journal,
                line,
            )
        if not lines and len(rest) == CHUNK:  # one line longer than a chunk: the next read has to be longer
            client.journal = None
            self._cut_off(client, RpcError(protocol.REFUSED, "An event is too long to be sent; read the journal."))

    def _drop(self, client: _Client) -> None:
        if self._clients.pop(client.connection.fileno(), None):
            self._selector.unregister(client.connection)
            client.connection.close()
            self._followed = any(other.journal is not None for other in self._clients.values())


def _requested(number: int, call: Call) -> Requested:
    try:
        tasks = tuple(Task.parse(str(name)) for name in call.params.get("tasks", []))
        signal = int(call.params.get("signal", 9))
        steps, seconds = int(call.params.get("steps", 20)), float(call.params.get("seconds", 30))
    except (ValueError, TypeError, OverflowError) as error:
        raise RpcError(protocol.INVALID_PARAMS, str(error), call.id) from None
    if not 1 <= signal <= 64:
        raise RpcError(protocol.INVALID_PARAMS, f"{signal} is not a signal.", call.id)
    if not (1 <= steps < 1 << 63 and 0 < seconds <= LONGEST_PROFILE):
        problem = f"A profile is of 1 step or more, and of {LONGEST_PROFILE:g} s at most."
        raise RpcError(protocol.INVALID_PARAMS, problem, call.id)
    force, fault = call.params.get("force") is True, str(call.params.get("fault", ""))
    return Requested(number, Verb(call.method), tasks, signal, force, fault, steps, seconds)


def _peer_uid(connection: socket.socket) -> int:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", raw)[1]
    return uid

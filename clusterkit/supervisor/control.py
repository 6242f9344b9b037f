"""The control socket: a small JSON-RPC server in its own thread, which posts requests to the inbox as events."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clusterkit.store.control import listen
from clusterkit.store.directory import RunDirectory
from clusterkit.system.ownership import is_trusted, peer_uid
from clusterkit.system.poller import READABLE, WRITABLE, Poller
from clusterkit.words import protocol
from clusterkit.words.actions import Answer
from clusterkit.words.events import Crashed, Impaired, Requested, Verb
from clusterkit.words.model import Task
from clusterkit.words.protocol import INVALID_PARAMS, Call, RpcError

LONGEST_PROFILE = 3600.0  # seconds; the longest profile that a client may request
LONGEST_NAME = 40  # characters; the limit for a task's name (`evaluator:4095` has 14)
STEP_LIMIT = 1 << 63  # the number of steps in a request must be lower than this
CHUNK = 1 << 16  # bytes; the maximum amount to read from a client at once
ACCEPT_PAUSE = 1.0  # seconds; the pause after a failure to accept a client
Post = Callable[[Requested | Impaired | Crashed], None]


def request_event(number: int, call: Call) -> Requested:
    """Check a call and convert it to an event; `number` identifies the request within the run. Raises RpcError."""
    params = call.params
    signal, steps, seconds = params.get("signal", 9), params.get("steps", 20), params.get("seconds", 30)
    force, fault, terminal = params.get("force", False), params.get("fault", ""), params.get("terminal", False)
    if not _is_count(signal, 1, 65):
        readable = _is_count(signal, -STEP_LIMIT, STEP_LIMIT)
        raise _invalid(call, f"{signal if readable else 'This'} is not a signal.")
    if not (_is_count(steps, 1, STEP_LIMIT) and type(seconds) in (int, float) and 0 < seconds <= LONGEST_PROFILE):
        raise _invalid(call, f"A profile covers at least 1 step and at most {LONGEST_PROFILE:g} s.")
    if not isinstance(fault, str):
        raise _invalid(call, "`fault` is a string, such as 'kill worker:1'.")
    if not isinstance(force, bool):
        raise _invalid(call, "`force` is true or false.")
    if not isinstance(terminal, bool):
        raise _invalid(call, "`terminal` is true or false.")
    return Requested(number, Verb(call.method), _tasks(call), signal, force, fault, steps, float(seconds), terminal)


def _tasks(call: Call) -> tuple[Task, ...]:
    names = call.params.get("tasks", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _invalid(call, '`tasks` is a list of names, such as ["worker:1"].')
    if any(len(name) > LONGEST_NAME for name in names):
        raise _invalid(call, "`tasks` has a name that no task can have.")
    try:
        return tuple(dict.fromkeys(map(Task.parse, names)))
    except ValueError as error:
        raise _invalid(call, str(error)) from None


def _is_count(value: Any, least: int, end: int) -> bool:
    return type(value) is int and least <= value < end


def _invalid(call: Call, problem: str) -> RpcError:
    return RpcError(INVALID_PARAMS, problem, call.id)


@dataclass(slots=True)
class _Connection:
    connection: socket.socket
    received: bytes = b""
    unsent: bytearray = field(default_factory=bytearray)
    closing: bool = False  # True if the client is disconnected once it has received a last error


class ControlServer:
    """Serves any number of clients. No client can delay another client or the supervisor."""

    def __init__(self, run: RunDirectory, greeting: dict[str, Any], post: Post) -> None:
        self._greeting = {"protocol": protocol.PROTOCOL, **greeting}
        self._post = post
        self._run, self._socket = run, listen(run)
        self._resumes_at: float | None = None  # monotonic seconds; None unless accepting is paused
        self._has_warned = False
        self._clients: dict[int, _Connection] = {}
        self._pending: dict[int, tuple[_Connection, int | str | None]] = {}
        self._request_count = 0
        self._poller = Poller("control", post, self._resume_accepting)
        self._poller.watch(self._socket.fileno(), self._accept)
        self._poller.start()

    def answer(self, answer: Answer) -> None:
        """Send the state machine's answer to the client that made the request. Called in the loop's thread."""
        self._poller.do(partial(self._answer, answer))

    def stop(self) -> None:
        """Send as many pending answers as the clients accept without blocking, and close the connections."""
        self._poller.stop()
        for client in self._clients.values():
            client.connection.close()
        self._socket.close()
        with suppress(OSError):
            self._run.control_socket.unlink()

    def _resume_accepting(self) -> float | None:
        """Return the remaining seconds of a pause. Once the pause is over, accept clients again, and return None."""
        if self._resumes_at is None:
            return None
        if (left := self._resumes_at - time.monotonic()) > 0:
            return left
        self._resumes_at = None
        self._poller.watch(self._socket.fileno(), self._accept)
        return None

    def _accept(self, _: int) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):  # the client has already disconnected
            return
        except OSError as error:  # no descriptor is free; pause, since the pending client would wake the thread again
            self._poller.forget(self._socket.fileno())
            self._resumes_at = time.monotonic() + ACCEPT_PAUSE
            self._warn(error)
            return
        if not is_trusted(peer_uid(connection)):
            connection.close()
            return
        connection.setblocking(False)
        client = self._clients[connection.fileno()] = _Connection(connection)
        self._poller.watch(connection.fileno(), partial(self._serve, client))

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            why = f"{error.strerror}. Commands for this run wait until it can: end other clients, or raise `ulimit -n`"
            self._post(Impaired(f"The control socket can't accept a client: {why}."))

    def _answer(self, answer: Answer) -> None:
        client, call_id = self._pending.pop(answer.request)
        if call_id is None or client.connection.fileno() < 0:
            return
        if answer.problem is not None:
            self._send(client, protocol.failure(RpcError(protocol.REFUSED, answer.problem, call_id)))
        else:
            result = {"request": answer.request, "tasks": [str(task) for task in answer.tasks]}
            self._send(client, protocol.answer(call_id, result))

    def _serve(self, client: _Connection, ready: int) -> None:
        if ready & WRITABLE:
            self._flush(client)
        if ready & ~WRITABLE and client.connection.fileno() >= 0:
            self._receive(client)

    def _receive(self, client: _Connection) -> None:
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
            if not client.closing and client.connection.fileno() >= 0:
                self._handle(client, line)
        if len(client.received) > protocol.LONGEST:
            self._close_with_error(
                client, RpcError(protocol.INVALID_REQUEST, "The line is longer than a request can be.")
            )

    def _handle(self, client: _Connection, line: bytes) -> None:
        try:
            self._dispatch(client, protocol.parse_call(line))
        except RpcError as error:
            if error.code == protocol.INVALID_PARAMS:
                self._send(client, protocol.failure(error))
            else:
                self._close_with_error(client, error)

    def _dispatch(self, client: _Connection, call: Call) -> None:
        if call.method == "hello":
            self._send(client, protocol.answer(call.id, self._greeting))
        elif call.method in set(Verb):
            self._request_count += 1
            event = request_event(self._request_count, call)
            self._pending[self._request_count] = (client, call.id)
            self._post(event)
        else:
            raise RpcError(protocol.METHOD_NOT_FOUND, f"There is no method {call.method[:40]!r}.", call.id)

    def _close_with_error(self, client: _Connection, error: RpcError) -> None:
        client.closing = True
        client.received = b""
        self._send(client, protocol.failure(error))

    def _send(self, client: _Connection, line: bytes) -> None:
        if len(client.unsent) > protocol.LONGEST * 16:  # the client sends requests and never reads the answers
            self._drop(client)
            return
        client.unsent += line
        self._flush(client)

    def _flush(self, client: _Connection) -> None:
        """Send as much as the client accepts without blocking."""
        try:
            while client.unsent:
                del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            pass
        except OSError:  # the client has disconnected
            self._drop(client)
            return
        if client.closing and not client.unsent:
            self._drop(client)
            return
        self._poller.rearm(client.connection.fileno(), READABLE | (WRITABLE if client.unsent else 0))

    def _drop(self, client: _Connection) -> None:
        if self._clients.pop(client.connection.fileno(), None):
            self._poller.forget(client.connection.fileno())
            client.connection.close()
            if self._resumes_at is not None:  # closing has freed a descriptor, so end the pause
                self._resumes_at = 0.0

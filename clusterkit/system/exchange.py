"""The client's side of the protocol for fork servers and warm servers: one answer to each request."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

MAX_ANSWER = 1 << 20  # bytes; longer answers are invalid


class BadAnswer(OSError):
    """A server's answer is too long, or is not a JSON object on a single line."""

    def __init__(self) -> None:
        super().__init__("its answer is invalid")


def ask(channel: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int], within: float) -> float:
    """Send a request in the format of fork_server.py; return the answer's deadline (monotonic). Raises OSError."""
    until = time.monotonic() + within
    channel.settimeout(within)
    body = json.dumps(request).encode()
    message = len(body).to_bytes(4, "big") + body
    # Send everything in one call: this process may be stopped between two calls, and a warm server waits only a second
    # for the rest of a request.
    sent = socket.send_fds(channel, [message], descriptors)
    if sent < len(message):  # `sendall` fails even for zero bytes once the server has answered and closed
        channel.sendall(message[sent:])
    return until


def answer(channel: socket.socket, until: float, received: bytearray) -> dict[str, Any]:
    """Return the next answer; keep later bytes in `received`. Raises BadAnswer, TimeoutError at `until`, OSError."""
    while (end := received.find(b"\n")) < 0:
        if len(received) > MAX_ANSWER:
            raise BadAnswer
        left = until - time.monotonic()
        channel.settimeout(max(0.0, left))  # after the deadline, only read bytes that have arrived
        try:
            more = channel.recv(1 << 16)
        except BlockingIOError:
            more = None
        if more is None or (left <= 0 and b"\n" not in more):
            raise TimeoutError("the answer did not arrive in time")
        if not more:
            raise ConnectionResetError("the server closed the connection without an answer")
        received += more
    line = bytes(received[: end + 1])
    del received[: end + 1]
    found = parse_line(line) if len(line) <= MAX_ANSWER else None
    if not isinstance(found, dict):
        raise BadAnswer
    return found


def parse_line(line: bytes) -> Any:
    """Parse a line of JSON; return None if it is invalid."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None

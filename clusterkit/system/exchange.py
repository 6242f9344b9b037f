"""The client's side of the protocol of fork servers and warm servers: one request, one answer."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

MAX_ANSWER = 1 << 20  # bytes


class BadAnswer(OSError):
    """A server's answer is not a line of JSON with an object, or is too long."""

    def __init__(self) -> None:
        super().__init__("its answer is invalid")


def exchange(
    channel: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int], within: float
) -> dict[str, Any]:
    """Send a request and return the answer; fork_server.py describes the protocol.

    Raises BadAnswer for an invalid answer, TimeoutError after `within` seconds, and another OSError if the server
    ends without an answer.
    """
    until = time.monotonic() + within
    channel.settimeout(within)
    body = json.dumps(request).encode()
    socket.send_fds(channel, [len(body).to_bytes(4, "big")], descriptors)
    channel.sendall(body)
    line = b""
    while not line.endswith(b"\n"):
        if (left := until - time.monotonic()) <= 0:
            raise TimeoutError("the answer did not arrive in time")
        channel.settimeout(left)
        if not (more := channel.recv(1 << 16)):
            raise ConnectionResetError("the server closed the connection without an answer")
        line += more
        if len(line) > MAX_ANSWER:
            raise BadAnswer
    answer = parse_line(line)
    if not isinstance(answer, dict):
        raise BadAnswer
    return answer


def parse_line(line: bytes) -> Any:
    """Parse a line of JSON; None if it is invalid."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None

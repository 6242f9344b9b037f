"""A question and its answer: how a fork server and a warm server are asked."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 1 << 20  # bytes of an answer


class BadAnswer(OSError):
    """What a server answered is not what it is asked for."""

    def __init__(self) -> None:
        super().__init__("its answer makes no sense")


def exchange(
    channel: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int], within: float
) -> dict[str, Any]:
    """Ask a fork server or a warm server, as fork_server.py says. Raises OSError, also where it ends unanswered."""
    until = time.monotonic() + within
    channel.settimeout(within)
    body = json.dumps(request).encode()
    socket.send_fds(channel, [len(body).to_bytes(4, "big")], descriptors)
    channel.sendall(body)
    line = b""
    while not line.endswith(b"\n"):
        if (left := until - time.monotonic()) <= 0:
            raise TimeoutError("there was no whole answer in time")
        channel.settimeout(left)
        if not (more := channel.recv(1 << 16)):
            raise ConnectionResetError("there was no answer")
        line += more
        if len(line) > LONGEST:
            raise BadAnswer
    answer = parsed(line)
    if not isinstance(answer, dict):
        raise BadAnswer
    return answer


def parsed(line: bytes) -> Any:
    """A line of JSON; None where it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None

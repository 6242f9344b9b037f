"""The control protocol: JSON-RPC 2.0 over a Unix socket, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROTOCOL = 1  # the protocol's version, which is incremented by each change that clients would notice
LONGEST = 1 << 16  # bytes; a client that sends a longer request is disconnected

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
REFUSED = -32000  # error code for a valid request that the run can't execute now


class RpcError(Exception):
    """Raised for an invalid or refused request, which is answered with an error."""

    def __init__(self, code: int, message: str, call_id: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.call_id = call_id


@dataclass(frozen=True, slots=True)
class Call:
    """A request. The client chooses the `id`; None means that the client does not expect an answer."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    id: int | str | None = None


def parse_call(line: bytes) -> Call:
    """Parse a request. Raises RpcError if the line is not a valid request."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "This is not a line of JSON.") from None
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "A request is a JSON object.")
    call_id = message.get("id")
    if not isinstance(call_id, int | str | None) or isinstance(call_id, bool):
        raise RpcError(INVALID_REQUEST, "A request's id is a string or an integer.")
    method, params = message.get("method"), message.get("params", {})
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, 'A request has "jsonrpc": "2.0" and a method.', call_id)
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "The parameters are a JSON object: they go by name.", call_id)
    return Call(method, params, call_id)


def call(method: str, params: Mapping[str, Any], call_id: int) -> bytes:
    """Encode a request as a line of JSON."""
    return _line({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})


def answer(call_id: int | str | None, result: Any) -> bytes:
    """Encode the result of a request as a line of JSON."""
    return _line({"jsonrpc": "2.0", "id": call_id, "result": result})


def parse_answer(line: bytes) -> dict[str, Any]:
    """Parse an answer. Raises ValueError if the line is not a JSON object."""
    try:
        message = json.loads(line)
    except RecursionError:
        message = None
    if not isinstance(message, dict):
        raise ValueError("the answer is not a JSON object")
    return message


def failure(error: RpcError) -> bytes:
    """Encode the error of a failed request as a line of JSON."""
    return _line({"jsonrpc": "2.0", "id": error.call_id, "error": {"code": error.code, "message": str(error)}})


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"

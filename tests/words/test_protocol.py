"""The control protocol: whatever comes over the socket is a request or an error, never a surprise."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from clusterkit.words import protocol
from clusterkit.words.protocol import Call, RpcError, parse_call

LINES = 10_000
WORDS = ("2.0", "hello", "kill", "stacks", "down", "jsonrpc", "id", "method", "params", "tasks", "signal", "")
NUMBERS = (0, -1, 7, 2**31, 2**70, 0.5, 1e308, math.nan, math.inf, -math.inf)


def anything(draw: random.Random, depth: int = 0) -> Any:
    """A value of JSON, of any kind; nested, but not for long."""
    kind = draw.randrange(5 if depth > 2 else 7)
    if kind < 2:
        return draw.choice([None, True, False])
    if kind == 2:
        return draw.choice(NUMBERS)
    if kind < 5:
        return draw.choice(WORDS) if kind == 3 else text(draw)
    size = draw.randrange(4)
    if kind == 5:
        return [anything(draw, depth + 1) for _ in range(size)]
    return {draw.choice(WORDS) or text(draw): anything(draw, depth + 1) for _ in range(size)}


def text(draw: random.Random) -> str:
    """A few characters from all over Unicode, surrogates among them."""
    return "".join(chr(draw.choice((draw.randrange(128), draw.randrange(0x110000)))) for _ in range(draw.randrange(6)))


def nearly(draw: random.Random) -> dict[str, Any]:
    """A request in which each part may be right, of the wrong kind, or missing."""
    right = {
        "jsonrpc": "2.0",
        "id": draw.choice([1, "a", 2**70]),
        "method": draw.choice(["hello", "kill", "stacks", "down"]),
        "params": {name: anything(draw) for name in ("tasks", "signal", "from", "force") if draw.random() < 0.5},
    }
    return {
        name: value if draw.random() < 0.8 else anything(draw)
        for name, value in right.items()
        if draw.random() < 0.9
    }  # fmt: skip


def line_from(draw: random.Random) -> bytes:
    """Noise, any value, a request that is nearly right, or one with a few bytes of damage."""
    kind = draw.randrange(4)
    if kind == 0:
        return draw.randbytes(draw.randrange(200))
    line = json.dumps(anything(draw) if kind == 1 else nearly(draw)).encode()
    if kind == 3:
        damaged = bytearray(line)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        return bytes(damaged)
    return line


def parsed_or_refused(line: bytes) -> Call | RpcError:
    """What the server makes of a line; any other error than its own gets out."""
    try:
        return parse_call(line)
    except RpcError as error:
        return error


def test_any_line_is_a_call_or_an_rpc_error() -> None:
    """Ten thousand lines, from noise to nearly right: a Call with a usable id, or an RpcError with a sentence."""
    number = 7
    print(f"seed {number}")
    draw, calls = random.Random(number), 0
    for _ in range(LINES):
        line = line_from(draw)
        try:
            calls += check(line)
        except Exception as error:
            raise AssertionError(f"{line!r}: {error!r}") from error
    assert 500 < calls < LINES - 500


def check(line: bytes) -> bool:
    """Whether the line is a call; fails where it is neither that nor refused as it should."""
    parsed = parsed_or_refused(line)
    if isinstance(parsed, RpcError):
        assert str(parsed).endswith(".")
        assert json.loads(protocol.failure(parsed))["error"]["code"] == parsed.code
    else:
        assert isinstance(parsed.method, str)
        assert isinstance(parsed.params, dict)
        assert json.loads(protocol.answer(parsed.id, {}))["id"] == parsed.id
    return isinstance(parsed, Call)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", protocol.PARSE_ERROR),
        (b"\xff\xfe", protocol.PARSE_ERROR),
        (b"[" * 100_000, protocol.PARSE_ERROR),
        (b"[]", protocol.INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "method": "hello", "id": 1}', protocol.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "method": 7, "id": 1}', protocol.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "method": "hello", "id": true}', protocol.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "method": "hello", "id": 1, "params": [1]}', protocol.INVALID_PARAMS),
    ],
)
def test_what_is_no_request_gets_its_code(line: bytes, code: int) -> None:
    """JSON-RPC's own error codes, for its own kinds of mistakes."""
    with pytest.raises(RpcError) as caught:
        parse_call(line)
    assert caught.value.code == code


def test_a_call_comes_back_as_it_was_sent() -> None:
    """What the client writes is what the server reads."""
    line = protocol.call("kill", {"tasks": ["worker:1"], "signal": 15}, 3)
    assert line.endswith(b"\n")
    assert parse_call(line) == Call("kill", {"tasks": ["worker:1"], "signal": 15}, 3)

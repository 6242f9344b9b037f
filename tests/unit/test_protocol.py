"""The control protocol: whatever comes over the socket is a request or an error, never a surprise."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from clusterkit.rules import protocol
from clusterkit.rules.protocol import Call, RpcError, parse_call

MANY = settings(max_examples=10_000, deadline=None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text(max_size=5) | JSON,
        "method": st.sampled_from(["hello", "kill", "subscribe", "down"]) | JSON,
        "params": st.dictionaries(st.sampled_from(["tasks", "signal", "from", "force"]), JSON) | JSON,
    },
)
LINES = (
    st.binary(max_size=200)
    | JSON.map(lambda value: json.dumps(value).encode())
    | NEARLY.map(lambda value: json.dumps(value).encode())
)


def parsed_or_refused(line: bytes) -> Call | RpcError:
    """What the server makes of a line; any other error than its own gets out."""
    try:
        return parse_call(line)
    except RpcError as error:
        return error


@pytest.mark.slow
@MANY
@seed(7)
@given(LINES)
def test_any_line_is_a_call_or_an_rpc_error(line: bytes) -> None:
    """Ten thousand lines, from noise to nearly right: a Call with a usable id, or an RpcError with a sentence."""
    parsed = parsed_or_refused(line)
    if isinstance(parsed, RpcError):
        assert str(parsed).endswith(".")
        assert json.loads(protocol.failure(parsed))["error"]["code"] == parsed.code
    else:
        assert isinstance(parsed.method, str)
        assert isinstance(parsed.params, dict)
        assert json.loads(protocol.answer(parsed.id, {}))["id"] == parsed.id


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

"""The greeting: who speaks another protocol is told so; whatever else is no hello is an error."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from clusterkit import __version__
from clusterkit.backends.link.frames import (
    JSON,
    PROTOCOL,
    AgentRefused,
    BadFrame,
    Frame,
    FrameParser,
    Hello,
    Welcome,
    parse_hello,
    parse_welcome,
    refusal,
)

HELLO = Hello("n1", "0" * 32, False, 1, 0, 12.5)


def one(data: bytes) -> Frame:
    """The frame that these bytes are."""
    (found,) = FrameParser().feed(data)
    return found


def changed(fields: Mapping[str, JSON]) -> Frame:
    """A hello with other fields."""
    return Frame({**one(HELLO.encode()).header, **fields})


def test_a_greeting_comes_back_as_it_was_sent() -> None:
    """And so does its answer."""
    assert parse_hello(one(HELLO.encode())) == HELLO
    assert parse_welcome(one(Welcome(3, 12.5, 30.0).encode())) == Welcome(3, 12.5, 30.0)


def test_another_protocol_is_refused_with_both_versions() -> None:
    """In one sentence, whatever the rest of that hello looks like; and the agent reads it."""
    hello = Frame({"kind": "hello", "protocol": PROTOCOL + 1, "version": "9.1", "host": "n1", "size": 0})
    with pytest.raises(AgentRefused) as caught:
        parse_hello(hello)
    why = (
        f"The agent on n1 is clusterkit 9.1 (protocol {PROTOCOL + 1}), the supervisor is clusterkit {__version__} "
        f"(protocol {PROTOCOL}): install the same version on both."
    )
    assert str(caught.value) == why
    with pytest.raises(AgentRefused) as told:
        parse_welcome(one(refusal(why)))
    assert str(told.value) == why


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "message"},
        {"kind": None},
        {"protocol": "1"},
        {"version": 1},
        {"version": "\x1b[2J"},
        {"host": ""},
        {"host": "n" * 256},
        {"host": "n1\n"},
        {"session": ""},
        {"session": "0" * 31 + "\n"},
        {"session": "0" * 33},
        {"welcomed": 1},
        {"attempt": -1},
        {"received": True},
        {"time": "now"},
    ],
)
def test_what_is_no_hello_is_an_error(fields: Mapping[str, JSON]) -> None:
    """Each field is of its kind."""
    with pytest.raises(BadFrame):
        parse_hello(changed(fields))


@pytest.mark.parametrize(
    "answer", [{"kind": "ack"}, {"kind": "refused"}, {"kind": "welcome", "received": 0, "time": 0, "timeout": 0}]
)
def test_what_is_no_answer_is_an_error(answer: Mapping[str, JSON]) -> None:
    """A timeout of nothing would end the agent."""
    with pytest.raises(BadFrame):
        parse_welcome(Frame(answer))

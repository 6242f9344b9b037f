"""Endpoints as text: what is read of them, and how they are written."""

from __future__ import annotations

import random

import pytest

from clusterkit.text.endpoints import endpoint_of, host_in, split


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:7077", "10.0.0.1", 7077),
        ("n1:0", "n1", 0),
        ("[::1]:7077", "::1", 7077),
        ("[fd00::a:1]:65535", "fd00::a:1", 65535),
        ("::1", "::1", 0),
        ("[::1]", "::1", 0),
        ("n1", "n1", 0),
    ],
)
def test_an_endpoint_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    """An IPv6 address with a port has brackets."""
    assert (split(text), host_in(text)) == ((host, port), host)
    assert split(endpoint_of(host, port)) == (host, port)


@pytest.mark.parametrize("text", [":1", "a:b", "a:", "a:65536", "[::1]:x", "a:-1", "a:\u0661\u0662x"])
def test_anything_else_is_refused(text: str) -> None:
    """With the text, as it was given."""
    with pytest.raises(ValueError, match="is not of the form HOST:PORT"):
        split(text)


def test_random_text_is_an_endpoint_or_refused() -> None:
    """It never fails in another way."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(2000):
        text = "".join(dice.choice("a1:[].%-\ud800\u0663 \x00") for _ in range(dice.randint(0, 8)))
        try:
            host, port = split(text)
        except ValueError:
            continue
        assert isinstance(host, str)
        assert 0 <= port < 1 << 16

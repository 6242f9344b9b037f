"""By which names TensorBoard can be asked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.tensorboard.scalars import REFUSAL, for_own_names


def asked(host: str | None) -> bytes:
    """The answer to a request for this host."""
    said = list[Any]()
    answer = for_own_names(lambda environ, begin: [b"shown"])
    environ = {} if host is None else {"HTTP_HOST": host}
    return b"".join(answer(environ, lambda *args: said.append(args)))


@pytest.mark.parametrize("host", ["127.0.0.1:6006", "localhost:6007", "LOCALHOST", "[::1]:80"])
def test_its_own_names_are_answered(host: str) -> None:
    """With the port of a tunnel, too."""
    assert asked(host) == b"shown"


@pytest.mark.parametrize(
    "host", [None, "", "evil.example:6006", "127.0.0.1.evil.example", "127.0.0.1:6006@x", "localhost:"]
)
def test_other_names_are_refused(host: str | None) -> None:
    """They can mean this machine, if a name server says so."""
    assert asked(host) == REFUSAL


@given(host=st.text(max_size=30))
def test_any_text_is_refused_that_is_no_name_of_this_machine(host: str) -> None:
    """Without an error."""
    own = re.match(r"(127\.0\.0\.1|localhost|\[::1\])(:|$)", host, re.IGNORECASE)
    assert own or asked(host) == REFUSAL

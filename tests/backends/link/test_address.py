"""A host's own address: on the way to the supervisor, or that of an interface."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from clusterkit.backends.link import address
from clusterkit.backends.link.address import NoInterface, address_on, own_address

V4, LINK, GLOBAL = "10.0.0.7", "fe80::1%eth0", "fd00::7"


def has(*addresses: str) -> list[Any]:
    """An interface's addresses as psutil lists them, after that of its hardware."""
    kinds = [(socket.AF_INET6 if ":" in one else socket.AF_INET, one) for one in addresses]
    return [SimpleNamespace(family=kind, address=one) for kind, one in [(psutil.AF_LINK, "00:11:22:33:44:55"), *kinds]]


@pytest.mark.parametrize(
    ("there", "expected"),
    [((V4,), V4), ((LINK, GLOBAL, "fd00::8"), GLOBAL), ((GLOBAL, V4, "10.0.0.8"), V4), ((LINK,), None), ((), None)],
)
def test_the_address_of_an_interface(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], expected: str | None
) -> None:
    """Its first one of IPv4, or else of IPv6, but for one that is valid on its link alone."""
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth0": has(*there), "lo": has("127.0.0.1")})
    if expected is not None:
        assert address_on("eth0") == expected
        return
    with pytest.raises(NoInterface, match="The interface eth0 has no address here, or does not exist"):
        address_on("eth0")


@pytest.mark.process
@pytest.mark.parametrize("supervisor", ["127.0.0.1", "::1"])
def test_the_address_on_the_way_to_the_supervisor(supervisor: str) -> None:
    """By the protocol by which the supervisor was reached."""
    assert own_address((supervisor, 9)) == supervisor


def test_a_link_local_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's servers would not find each other there."""

    class Socket:
        """One that is on a link."""

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Socket:
            return self

        def __exit__(self, *_: object) -> None: ...

        def connect(self, _: object) -> None:
            """It works."""

        def getsockname(self) -> tuple[str, int, int, int]:
            """With the number of the link beside the address."""
            return ("fe80::1%eth0", 40000, 0, 2)

    monkeypatch.setattr(address, "socket", SimpleNamespace(**{**vars(socket), "socket": Socket}))
    with pytest.raises(NoInterface, match=r"fe80::1%eth0, is valid on one link only, .*--listen, or an --interface"):
        own_address(("fe80::2", 9))

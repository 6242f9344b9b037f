"""The run's certificate: whoever has its key is in, and nobody else; the key is in no message."""

from __future__ import annotations

import datetime
import os
import re
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from clusterkit.backends.link.certificate import (
    CertificateError,
    Tls,
    Untrusted,
    make_certificate,
    pinned,
    tls_context,
    write_certificate,
)
from tests.strangers import STRANGER

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A run's certificate."""
    return written(tmp_path / "run.pem", NOW)


def written(path: Path, now: datetime.datetime) -> Path:
    """A certificate that was made at that time."""
    path.touch(0o600)
    path.write_bytes(make_certificate("a-run", now))
    return path


def server(pem: Path) -> Tls:
    """The supervisor's side."""
    return Tls(tls_context(pem, is_server=True), pinned(pem), is_server=True)


def client(pem: Path) -> Tls:
    """The agent's side."""
    return Tls(tls_context(pem, is_server=False), pinned(pem), is_server=False)


def shake_hands(agent: Tls, supervisor: Tls) -> None:
    """Pass on what they have to say, until they have nothing more. Raises Untrusted."""
    agent.receive(b"")
    while said := agent.take():
        supervisor.receive(said)
        agent.receive(supervisor.take())


def test_two_sides_with_the_same_key_understand_each_other(pem: Path) -> None:
    """In both directions."""
    agent, supervisor = client(pem), server(pem)
    shake_hands(agent, supervisor)
    assert agent.is_open
    assert supervisor.is_open
    agent.send(b"a" * 100_000)
    assert supervisor.receive(agent.take()) == b"a" * 100_000
    supervisor.send(b"b")
    assert agent.receive(supervisor.take()) == b"b"


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """From its first moment; and an existing file is not written into."""
    path = tmp_path / "certificate.pem"
    write_certificate(path, "a-run" * 50)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server(path)
    with pytest.raises(FileExistsError):
        write_certificate(path, "another")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_key_that_others_can_read_is_refused(pem: Path, mode: int) -> None:
    """As ssh does; one that belongs to somebody else is their business: Kubernetes gives it to the pod's group."""
    pem.chmod(mode)
    for is_server in (True, False):
        with pytest.raises(CertificateError, match=f"Other users can use the key {pem} .* chmod 600 {pem}"):
            tls_context(pem, is_server=is_server)
    if os.getuid() == 0:
        os.chown(pem, STRANGER, -1)
        assert tls_context(pem, is_server=False)


def test_another_runs_key_is_refused_by_both(pem: Path, tmp_path: Path) -> None:
    """The agent finds out first; an agent that would not look is refused by the supervisor."""
    other = written(tmp_path / "other.pem", NOW)
    agent, supervisor = client(other), server(pem)
    with pytest.raises(Untrusted, match="its certificate is not this run's"):
        shake_hands(agent, supervisor)
    assert not agent.is_open
    careless = tls_context(other, is_server=False)
    careless.verify_mode = ssl.CERT_NONE
    supervisor = server(pem)
    with pytest.raises(Untrusted, match="its certificate is not this run's"):
        shake_hands(Tls(careless, pinned(pem), is_server=False), supervisor)
    assert not supervisor.is_open


def test_no_certificate_is_refused(pem: Path) -> None:
    """Before a byte is passed on."""
    naked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    naked.check_hostname, naked.verify_mode = False, ssl.CERT_NONE
    agent, supervisor = Tls(naked, pinned(pem), is_server=False), server(pem)
    with pytest.raises(Untrusted, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(agent, supervisor)
    assert not supervisor.is_open


def test_a_certificate_that_the_run_has_signed_is_not_the_runs(pem: Path) -> None:
    """The certificates themselves are compared, not only verified."""
    agent, supervisor = client(pem), Tls(tls_context(pem, is_server=True), b"another", is_server=True)
    with pytest.raises(Untrusted, match="its certificate is not this run's"):
        shake_hands(agent, supervisor)


@pytest.mark.parametrize(
    ("age", "why"),
    [
        (datetime.timedelta(days=3651), "the run's certificate has expired by this host's clock"),
        (datetime.timedelta(days=-2), "the run's certificate is not valid yet by this host's clock, which is behind"),
    ],
)
def test_a_certificate_is_valid_for_ten_years(age: datetime.timedelta, why: str, tmp_path: Path) -> None:
    """Not before the day before it was made, and not after; the agent says so, and what the supervisor says of it."""
    pem = written(tmp_path / "old.pem", NOW - age)
    with pytest.raises(Untrusted, match=why):
        shake_hands(client(pem), server(pem))
    careless = tls_context(pem, is_server=False)
    careless.verify_mode = ssl.CERT_NONE
    agent, supervisor = Tls(careless, pinned(pem), is_server=False), server(pem)
    with pytest.raises(Untrusted, match=why):
        shake_hands(agent, supervisor)
    with pytest.raises(Untrusted, match="the other host refused the run's certificate: compare key and clocks"):
        agent.receive(supervisor.take())


def test_clocks_may_differ_by_less_than_a_day(tmp_path: Path) -> None:
    """Between the hosts."""
    pem = written(tmp_path / "tomorrow.pem", NOW + datetime.timedelta(hours=23))
    shake_hands(client(pem), server(pem))


def test_an_older_tls_is_refused(pem: Path) -> None:
    """1.3 is the only one."""
    context = tls_context(pem, is_server=False)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(Untrusted, match="UNSUPPORTED_PROTOCOL"):
        shake_hands(Tls(context, pinned(pem), is_server=False), server(pem))


def without_certificate(pem: str) -> str:
    """Its key alone."""
    return pem[pem.index("-----BEGIN PRIVATE KEY") :]


def without_key(pem: str) -> str:
    """Its certificate alone."""
    return pem[: pem.index("-----BEGIN PRIVATE KEY")]


def damaged(pem: str) -> str:
    """With a hole in its key."""
    return pem.replace(pem[-120:-60], "")


def encrypted(pem: str) -> str:
    """With a key for which OpenSSL wants a password."""
    key = serialization.load_pem_private_key(without_certificate(pem).encode(), None)
    password = serialization.BestAvailableEncryption(b"password")
    locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, password)
    return without_key(pem) + locked.decode()


@pytest.mark.parametrize(
    "change", [without_certificate, without_key, damaged, encrypted, lambda pem: "", lambda pem: "\xff"]
)
def test_a_damaged_file_is_an_error_that_does_not_quote_it(change: Callable[[str], str], pem: Path) -> None:
    """Neither in its message nor in the exceptions that it came from."""
    text = pem.read_text()
    pem.write_text(change(text))
    with pytest.raises(CertificateError, match=r"^The run's certificate is damaged: .*run\.pem$") as caught:
        tls_context(pem, is_server=True)
    secret = re.findall(r"^[\w+/=]{20,}$", without_certificate(text), re.MULTILINE)
    said = f"{caught.value} {caught.value.__context__!r}"
    assert len(secret) == 3
    assert not [line for line in secret if line in said]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(CertificateError, match=r"can't be read: No such file or directory: .*nowhere"):
        pinned(tmp_path / "nowhere")

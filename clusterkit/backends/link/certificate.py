"""The run's certificate: one key and one self-signed certificate, which the supervisor and all its agents share.

Both sides of a connection present this certificate and accept no other, so no certificate authority is needed. The file
also contains the key and is the run's secret. Each run has a different certificate.
"""

from __future__ import annotations

import datetime
import errno
import os
import ssl
import stat
from pathlib import Path

from clusterkit.system.files import write_whole
from clusterkit.words.errors import ClusterkitError

VALID_BEFORE = datetime.timedelta(days=1)  # a margin before the time of creation, since the hosts' clocks may differ
VALID_FOR = datetime.timedelta(days=3650)
CHUNK = 1 << 16
# Messages by OpenSSL's error code. They concern the run's certificate: any other certificate fails an earlier check.
_TIMES = {
    9: "the run's certificate is not valid yet by this host's clock, which is behind",
    10: "the run's certificate has expired by this host's clock",
}
_REFUSALS = {"SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_EXPIRED"}
REFUSED = "the other host refused the run's certificate: compare key and clocks"


class CertificateError(ClusterkitError):
    """Raised if the run's certificate can't be created or read."""


def write_certificate(path: Path, run_id: str) -> None:
    """Create a key and a certificate in a new file, readable by its owner. Raises CertificateError, FileExistsError."""
    pem = make_certificate(run_id, datetime.datetime.now(datetime.UTC))
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    write_whole(path, pem, 0o600)


def make_certificate(run_id: str, now: datetime.datetime) -> bytes:
    """Return a new certificate and its key as PEM. Raises CertificateError."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError as error:
        raise CertificateError(
            f"A run on several hosts needs the package cryptography ({error}): pip install 'tf-clusterkit[engines]'."
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, run_id[:64])])  # the standard allows 64 characters
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - VALID_BEFORE)
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM) + secret


def pinned(pem: Path) -> bytes:
    """Return the certificate in a file as DER, the form in which the peer presents it. Raises CertificateError.

    As with login keys, other users must not have access to the file. Another user's file is not checked, since
    Kubernetes mounts the file with access for the pod's group.
    """
    try:
        with pem.open(encoding="ascii") as file:
            seen, text = os.fstat(file.fileno()), file.read()
        if seen.st_uid == os.getuid() and seen.st_mode & 0o077:
            raise CertificateError(
                f"Other users can use the key {pem} (mode {stat.S_IMODE(seen.st_mode):03o}), so it is refused. Make it "
                f"yours alone: chmod 600 {pem}"
            )
        start, end = text.index(ssl.PEM_HEADER), text.index(ssl.PEM_FOOTER)
        return ssl.PEM_cert_to_DER_cert(text[start : end + len(ssl.PEM_FOOTER)])
    except OSError as error:
        raise CertificateError(f"The run's certificate can't be read: {error.strerror}: {pem}") from None
    except ValueError:
        raise CertificateError(f"The run's certificate is damaged: {pem}") from None


def tls_context(pem: Path, *, is_server: bool) -> ssl.SSLContext:
    """Return the TLS context for the supervisor's side (`is_server`) or an agent's side. Raises CertificateError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    if is_server:
        context.num_tickets = 0  # no resumption of TLS sessions, so that each client has to prove that it has the key
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # Tls compares the whole certificate instead
    context.verify_mode = ssl.CERT_REQUIRED
    certificate = pinned(pem)
    try:
        context.load_verify_locations(cadata=certificate)
        context.load_cert_chain(pem, password=b"")  # without a password, OpenSSL would prompt on the terminal
    except (OSError, ValueError):
        raise CertificateError(f"The run's certificate is damaged: {pem}") from None
    return context


class Untrusted(Exception):
    """Raised if the peer does not have the run's certificate, or does not speak TLS."""


class Tls:
    """One side of a TLS connection. It decrypts data only after the peer has proved that it has the run's key."""

    def __init__(self, context: ssl.SSLContext, certificate: bytes, *, is_server: bool) -> None:
        self._certificate = certificate
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self.is_open = False

    def receive(self, data: bytes) -> bytes:
        """Process bytes from the network; return decrypted data. A client passes b"" to begin. Raises Untrusted."""
        self._incoming.write(data)
        try:
            if not self.is_open:
                self._object.do_handshake()
                if self._object.getpeercert(binary_form=True) != self._certificate:
                    raise Untrusted("its certificate is not this run's")
                self.is_open = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(_TIMES.get(error.verify_code, "its certificate is not this run's")) from None
        except ssl.SSLError as error:
            refused = error.reason in _REFUSALS
            raise Untrusted(REFUSED if refused else f"TLS failed ({error.reason or type(error).__name__})") from None

    def send(self, data: bytes | bytearray) -> None:
        """Encrypt bytes for the network; `take` then returns the encrypted bytes."""
        with memoryview(data) as left:
            sent = 0
            while sent < len(left):
                sent += self._object.write(left[sent:])

    def take(self) -> bytes:
        return self._outgoing.read()

    def _read(self) -> bytes:
        clear = bytearray()
        try:
            while chunk := self._object.read(CHUNK):
                clear += chunk
        except ssl.SSLWantReadError:
            pass
        return bytes(clear)

"""TLS without a socket: encrypts and decrypts the bytes of a connection, and checks who is at the other end."""

from __future__ import annotations

import ssl

CHUNK = 1 << 16
# By OpenSSL's codes. Both are said of the run's own certificate: that of another run is refused before.
_TIMES = {
    9: "the run's certificate is not valid yet by this host's clock, which is behind",
    10: "the run's certificate has expired by this host's clock",
}
_REFUSALS = {"SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_EXPIRED"}
REFUSED = "the other host refused the run's certificate: compare key and clocks"


class Untrusted(Exception):
    """The other side does not have the run's certificate, or does not speak TLS."""


class Tls:
    """One side of a connection. Decrypts nothing before the other side has proved that it has the run's key."""

    def __init__(self, context: ssl.SSLContext, certificate: bytes, *, is_server: bool) -> None:
        self._certificate = certificate
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self.is_open = False

    def receive(self, data: bytes) -> bytes:
        """Decrypt bytes from the network; the handshake takes its share of them. A client starts with none.

        Raises Untrusted.
        """
        self._incoming.write(data)
        try:
            if not self.is_open:
                self._object.do_handshake()
                self._compare()
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(_TIMES.get(error.verify_code, "its certificate is not this run's")) from None
        except ssl.SSLError as error:
            refused = error.reason in _REFUSALS
            raise Untrusted(REFUSED if refused else f"TLS failed ({error.reason or type(error).__name__})") from None

    def send(self, data: bytes | bytearray) -> None:
        """Encrypt bytes for the network; `take` returns them."""
        with memoryview(data) as left:
            sent = 0
            while sent < len(left):
                sent += self._object.write(left[sent:])

    def take(self) -> bytes:
        """Return the bytes to be sent over the network."""
        return self._outgoing.read()

    def _compare(self) -> None:
        if self._object.getpeercert(binary_form=True) != self._certificate:
            raise Untrusted("its certificate is not this run's")
        self.is_open = True

    def _read(self) -> bytes:
        clear = bytearray()
        try:
            while chunk := self._object.read(CHUNK):
                clear += chunk
        except ssl.SSLWantReadError:
            pass
        return bytes(clear)

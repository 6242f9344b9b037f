"""A stranger at a port: `python -m tests.backends.link.knocking HOST PORT OLD_KEY` prints who let it in.

On the hosts of a test cluster it runs there. A listener alone gets 100,000 inputs in test_strangers.py.
"""

from __future__ import annotations

import random
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.certificate import tls_context
from clusterkit.backends.link.frames import Hello, numbered
from clusterkit.backends.link.session import message_text
from clusterkit.words.events import Crashed
from tests.backends.link.wires import says

SEED = 14
GARBAGE = 30
NEWCOMER = Hello("n1", "0" * 32, False, 1, 0, 1.0).encode()
INTRUDER = NEWCOMER + numbered(1, 0, message_text(ms.encode(Crashed("a stranger", "e", "t")), b""), b"")


def naked() -> ssl.SSLContext:
    """TLS without a certificate, which trusts everyone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def attempts(old_key: Path) -> Iterator[tuple[bytes, ssl.SSLContext | None]]:
    """What is said, and over what: nothing of the run's key is in it."""
    old, trusting = tls_context(old_key, is_server=False), naked()
    trusting.load_cert_chain(old_key)
    for context in (None, naked(), old, trusting):
        for data in (b"", INTRUDER, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            yield data, context
    draw = random.Random(SEED)
    print(f"seed {SEED}", file=sys.stderr)
    for _ in range(GARBAGE):
        yield draw.choice((b"", b"\x16\x03\x01", b"{")) + draw.randbytes(draw.randrange(1, 400)), None


def who_let_in(host: str, port: int, old_key: Path) -> list[str]:
    """Say all that; return what was answered by something else than TLS that ends the connection."""
    answers = [says((host, port), data, context) for data, context in attempts(old_key)]
    return [repr(answer) for answer in answers if answer and not is_alert(answer)]


def is_alert(answer: bytes) -> bool:
    """Whether it is one record of TLS in clear, which says that something was wrong."""
    return len(answer) == 7 and answer[0] == 21 and answer[3:6] == b"\x00\x02\x02"


if __name__ == "__main__":
    print("\n".join(who_let_in(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))

"""Who may ask TensorBoard: this user's programs, by this machine's own names. TensorBoard itself answers everybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from clusterkit.task.peers import is_own

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
# With any port: a tunnel's can be another one.
_OWN = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
REFUSAL = b"TensorBoard answers to no other host than 127.0.0.1 and localhost.\n"


def for_own_names(application: Application) -> Application:
    """A WSGI application that refuses requests for other hosts: a name server can make any name mean 127.0.0.1."""

    def answer(environ: dict[str, Any], begin: Callable[..., Any]) -> Iterable[bytes]:
        if _OWN.fullmatch(environ.get("HTTP_HOST", "")):
            return application(environ, begin)
        begin("421 Misdirected Request", [("content-type", "text/plain"), ("content-length", str(len(REFUSAL)))])
        return [REFUSAL]

    return answer


def for_own_user(server: Any) -> Any:
    """The server, which from now on closes the connections of other users."""
    server.verify_request = lambda request, address: is_own(request)
    return server

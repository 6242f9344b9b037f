"""Access control: the server answers only requests that come from its own user and from the dashboard's own page.

Any web page can make a browser send requests to 127.0.0.1, and a hostile name server can make the host name of that
page resolve to 127.0.0.1 (DNS rebinding). So each request has to name this server as its host, must not come from
another page, and must have a token in a header. The page itself contains no secret and is served to everybody. The
page's script reads the token from the fragment of the address. A cookie would be less safe, because browsers send a
cookie to every port of 127.0.0.1.

When the server has ended, any user of the machine can listen on its port, and the pages that are still open ask
whoever listens there. So every start of a server has tokens of its own, and before a page sends a token, the server
has to prove that it knows this token: see `Tokens.proof`.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

VALID = 30.0  # seconds; how long a ticket is valid
NO_STORE = {"cache-control": "no-store"}
_FILE = re.compile(r"/api/run/[^/]+/file/[^/]+/[^/]+")
_TICKET = re.compile(r"(\d{1,12})\.([0-9a-f]{64})", re.ASCII)


class Tickets:
    """Issues and checks signed tickets. A ticket contains everything needed to check it, so no ticket is stored."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock

    def issue(self, path: str) -> str:
        """Return a ticket for the path of a file of a run. For any other path, return an empty string."""
        until = int(self._clock() + VALID)
        return f"{until}.{self._seal(until, path)}" if _FILE.fullmatch(path) else ""

    def admits(self, ticket: str, path: str) -> bool:
        found = _TICKET.fullmatch(ticket)
        if found is None or not _FILE.fullmatch(path):
            return False
        until = int(found[1])
        return hmac.compare_digest(self._seal(until, path), found[2]) and self._clock() <= until

    def _seal(self, until: int, path: str) -> str:
        return hmac.digest(self._key, f"{until} {path}".encode("utf-8", "surrogatepass"), "sha256").hex()


LOOKING = frozenset({"GET", "HEAD"})
POST_PATH = "/act"  # requests that change something must have a path with this suffix
LONGEST_ADDRESS = 1 << 13
TICKETS = "/api/ticket"  # with ?path=PATH, this path returns a ticket that lets a browser open the file PATH
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
NO_TOKEN = (
    "This request lacks the dashboard's token, or has an old one: each start of a dashboard has another token. "
    "Open the address that clusterkit printed. Programs send its token in the header Authorization: Bearer TOKEN."
)
ONLY_READING = "This token lets you see runs, but not control them."
PROOF = "/api/proof"  # with ?nonce=NONCE, this path returns what proves that the server knows its tokens
_NONCE = re.compile(r"[\w-]{16,64}", re.ASCII)
_LENGTH = 48  # hexadecimal digits of a token: 192 bits
# The paths of the page itself, for which no token is needed.
_DOCUMENT = re.compile(r"/|/run/[^/]*|/campaign/[^/]*|/compare/[^/]*")
_OPEN = re.compile(rf"{_DOCUMENT.pattern}|/static/.*")
_CANONICAL = "127.0.0.1"


def new_token() -> str:
    """Return a random token of 192 bits."""
    return secrets.token_hex(_LENGTH // 2)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one start of a server: `reading` lets a client see runs, `control` also lets it control them.

    The token for reading follows from the one for control, so that the page needs only one token, and sends the one for
    control only with requests that need it.
    """

    reading: str
    control: str | None = None  # None if the server controls no runs

    @classmethod
    def new(cls, control: bool) -> Tokens:
        token = new_token()
        return cls(_sealed(token, "clusterkit reading")[:_LENGTH], token) if control else cls(token)

    @property
    def strongest(self) -> str:
        return self.control or self.reading

    def proof(self, nonce: str, port: int) -> dict[str, str | None]:
        """Return what proves to a client with one of the tokens that this server knows the token.

        It tells nothing about the token. It names the port, so that a server on another port can't pass on the answer
        of this one.
        """
        text = f"clusterkit dashboard {port} {nonce}"
        control = None if self.control is None else _sealed(self.control, text)
        return {"reading": _sealed(self.reading, text), "control": control}


def _sealed(key: str, text: str) -> str:
    return hmac.digest(key.encode(), text.encode(), "sha256").hex()


class HttpRefused(Exception):
    """A request is refused. The response has an HTTP status, a sentence that says why, and additional headers."""

    def __init__(self, status: int, why: str, more: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status, self.why, self.more = status, why, more or {}


class Safety:
    """Middleware that lets only allowed requests through, and adds HEADERS to each response."""

    def __init__(self, app: ASGIApp, tokens: Tokens, port: int) -> None:
        self._app = app
        self._tokens = tokens
        self._port = port
        self._tickets = Tickets()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            self._check(scope)
        except HttpRefused as refused:
            answer = JSONResponse({"error": refused.why}, refused.status, {**NO_STORE, **refused.more})
            await answer(scope, receive, send_safely)
            return
        own = self._answer(scope) if scope["method"] == "GET" else None
        await (own or self._app)(scope, receive, send_safely)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is about access alone, or None."""
        path = scope["path"]
        if path == TICKETS:
            asked = dict(_pairs(scope["query_string"])).get("path", "")
            return JSONResponse({"ticket": self._tickets.issue(asked)}, headers=NO_STORE)
        if path == PROOF:
            nonce = dict(_pairs(scope["query_string"])).get("nonce", "")
            if not _NONCE.fullmatch(nonce):
                return JSONResponse({"error": "`nonce` must have 16 to 64 letters and digits."}, 400, NO_STORE)
            return JSONResponse(self._tokens.proof(nonce, self._port), headers=NO_STORE)
        # Another user may listen on the same port of ::1, which browsers prefer for `localhost`.
        if _DOCUMENT.fullmatch(path) and not Headers(scope=scope)["host"].startswith(f"{_CANONICAL}:"):
            query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
            return RedirectResponse(f"http://{_CANONICAL}:{self._port}{quote(path)}{query}", 307, NO_STORE)
        return None

    def _check(self, scope: Scope) -> None:
        """Raise HttpRefused if the request is not allowed."""
        method, headers = scope["method"], Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise HttpRefused(421, "This server answers only as 127.0.0.1 or localhost, followed by its port.")
        looks, path = method in LOOKING, scope["path"]
        if len(path) + len(scope["query_string"]) > LONGEST_ADDRESS:
            raise HttpRefused(414, "The address is too long.")
        self._check_origin(headers, looks, hosts[0].lower())
        self._check_token(scope, headers)
        if not looks and (method != "POST" or not path.endswith(POST_PATH)):
            raise HttpRefused(405, "This address accepts only GET requests.", {"allow": "GET, HEAD"})

    def _check_origin(self, headers: Headers, looks: bool, host: str) -> None:
        origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
        foreign = "This request comes from another web page, which is not allowed."
        if any(origin.lower() != f"http://{host}" for origin in origins):
            raise HttpRefused(403, foreign)
        allowed = {"same-origin", "none"} if looks else {"same-origin"}
        if any(site.lower() not in allowed for site in sites) and not (looks and _is_navigation(headers)):
            raise HttpRefused(403, foreign)
        if not looks and not origins:
            raise HttpRefused(403, "A request that changes something must have the header Origin.")

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        method, path = scope["method"], scope["path"]
        sent = [one.removeprefix("Bearer ").encode() for one in headers.getlist("authorization")]
        if self._is_sent(self._tokens.strongest, sent):
            return
        if self._is_sent(self._tokens.reading, sent):
            if method in LOOKING:
                return
            raise HttpRefused(403, ONLY_READING)
        if method in LOOKING and (path == PROOF or _OPEN.fullmatch(path)):
            return
        tickets = [value for name, value in _pairs(scope["query_string"]) if name == "ticket"]
        if method != "GET" or len(tickets) != 1 or not self._tickets.admits(tickets[0], path):
            raise HttpRefused(403, NO_TOKEN)

    @staticmethod
    def _is_sent(token: str, sent: Sequence[bytes]) -> bool:
        return any(hmac.compare_digest(one, token.encode()) for one in sent)


def _is_navigation(headers: Headers) -> bool:
    """Return whether a browser opens the address as a page, for example after a click on a link."""
    return headers.getlist("sec-fetch-mode") == ["navigate"] and headers.getlist("sec-fetch-dest") == ["document"]


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise HttpRefused(400, "The address has too many parts.") from None

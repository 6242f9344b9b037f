"""The metrics of one run without a page: /metrics on a loopback port, for a scraper of this machine."""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from clusterkit.client.directory import RunDirectory
from clusterkit.dashboard.live import LiveRun
from clusterkit.dashboard.metrics import CONTENT_TYPE, exposition
from clusterkit.dashboard.scraping import scraped
from clusterkit.dashboard.serve import HOST, LONGEST_HEAD, MOST_OF_OTHERS, Protocol, bound

PATH = "/metrics"
MOST_CONNECTIONS = 16
HELP = f"The metrics are at {PATH}.\n"


def metrics_app(live: LiveRun, port: int) -> ASGIApp:
    """Answers GET for PATH, asked by whichever of this machine's names."""
    hosts = {f"{name}:{port}" for name in (HOST, "localhost", "[::1]")}
    lock = asyncio.Lock()

    def read() -> bytes:
        live.update()
        return exposition(lambda: [scraped(live)])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        asked = [value.decode("latin-1").lower() for name, value in scope["headers"] if name.lower() == b"host"]
        kind, body = "text/plain; charset=utf-8", b""
        if len(asked) != 1 or asked[0] not in hosts:  # a hostile name server can make any name mean this machine
            status, body = 421, b"This server answers to no other host than 127.0.0.1 and localhost.\n"
        elif scope["method"] not in ("GET", "HEAD"):
            status, body = 405, b"This can only be looked at.\n"
        elif scope["path"] != PATH:
            status, body = 404, HELP.encode()
        else:
            async with lock:
                status, kind, body = 200, CONTENT_TYPE, await asyncio.to_thread(read)
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()),
                   (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]  # fmt: skip
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return app


class MetricsServer:
    """Serves the metrics of a run on a port, 0 for a free one. Raises ClusterkitError if the port is taken."""

    def __init__(self, run: RunDirectory, port: int) -> None:
        self._socket = bound(port, "metrics")
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            metrics_app(LiveRun(run), self.port),
            http=Protocol,
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS + MOST_OF_OTHERS,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """Where a scraper finds them."""
        return f"http://{HOST}:{self.port}{PATH}"

    def run(self) -> None:
        """Serve until `end`, or a signal."""
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def end(self) -> None:
        """End soon; from any thread."""
        self._server.should_exit = True

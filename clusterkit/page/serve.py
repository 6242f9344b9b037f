"""The dashboard's server: uvicorn on a loopback port, with limits on connections and requests."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from clusterkit.page.app import Dashboard
from clusterkit.page.safety import Safety, Tokens
from clusterkit.store.store import RunStore
from clusterkit.system.files import write_whole
from clusterkit.task.peers import uid_of
from clusterkit.words.errors import ClusterkitError

HOST = "127.0.0.1"
MOST_CONNECTIONS = 256
# The maximum number of connections from one other user of this machine, and from all other users together.
MOST_OF_ANOTHER, MOST_OF_OTHERS = 16, 64
BEGIN_WITHIN = 10.0  # seconds; the time limit for a client to send a request
NOBODY = -1  # stands for the unknown user of a client that has already disconnected
SWITCH_INTERVAL = 0.0005  # seconds; how long threads that read runs may keep the event loop waiting
LONGEST_HEAD = 1 << 14  # the maximum size of a request's headers, in bytes


class Protocol(H11Protocol):
    """HTTP for one client. Disconnects the client if no request arrives in time, and lets streams disconnect it.

    uvicorn itself would wait for a request indefinitely. Connections from other users are limited, so that
    other users can't use up all connections.
    """

    uid: int | None = None  # the user id of the client; None for root and this user

    def connection_made(self, transport: Any) -> None:
        """Limit the connections from other users, and the time within which a request must arrive."""
        super().connection_made(transport)
        uid = uid_of(transport.get_extra_info("socket"))
        if uid not in (0, os.getuid()):
            self.uid = NOBODY if uid is None else uid
            clients = [one for one in self.connections if isinstance(one, Protocol) and not one.transport.is_closing()]
            others = [one.uid for one in clients if one.uid is not None]
            if len(others) > MOST_OF_OTHERS or others.count(self.uid) > MOST_OF_ANOTHER:
                transport.abort()
        self.app_state = {**self.app_state, "abort": transport.abort}
        self._impatience = self.loop.call_later(BEGIN_WITHIN, self._cut_off)

    def connection_lost(self, exc: Exception | None) -> None:
        self._impatience.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._impatience.cancel()
        self._impatience = self.loop.call_later(BEGIN_WITHIN, self._cut_off)
        super().on_response_complete()

    def _cut_off(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that sets the event `ending` before shutting down, since the shutdown waits for streams."""

    def __init__(self, ending: asyncio.Event, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.set()
        await super().shutdown(sockets)


class PageServer:
    """A dashboard on a port of this machine, or on any free port if `port` is 0. Raises ClusterkitError."""

    def __init__(self, store: RunStore, control: bool = False, port: int = 0) -> None:
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        self._tokens = Tokens.new(control)
        self._store = store
        self._dashboard = Dashboard(store, control)
        app = Safety(self._dashboard.app(), self._tokens, self.port)
        self._server = _Uvicorn(
            self._dashboard.slots.ending,
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                lifespan="on",
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_CONNECTIONS + MOST_OF_OTHERS,
                h11_max_incomplete_event_size=LONGEST_HEAD,
                timeout_graceful_shutdown=1,
            ),
        )

    @property
    def unseen_for(self) -> float:
        """Return for how many seconds no page has been open; each open page has a stream."""
        return self._dashboard.slots.unused_for

    @property
    def token(self) -> str:
        """The token for programs that read, such as a scraper of metrics."""
        return self._tokens.reading

    def address(self, path: str = "/", reading: bool = False) -> str:
        """Return the address to open. The token is in the fragment, which browsers do not send to servers.

        Whoever opens the address may control runs if the server does; with `reading`, only see them.
        """
        token = self._tokens.reading if reading else self._tokens.strongest
        return f"http://{HOST}:{self.port}{path}#token={token}"

    @contextmanager
    def published(self, path: str) -> Iterator[Path | None]:
        """Keep the address of `path` and the token for reading in private files. Yields the file with the address.

        Yields None if the files can't be written.
        """
        files = {what: self._store.dashboard_file(self.port, what) for what in ("address", "token")}
        try:
            files["address"].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(files["address"], f"{self.address(path)}\n".encode(), 0o600)
            write_whole(files["token"], f"{self.token}\n".encode(), 0o600)
        except OSError:
            yield None
            return
        try:
            yield files["address"]
        finally:
            for file in files.values():
                with suppress(OSError):
                    file.unlink()

    def linger(self) -> None:
        """Have pages show from now on that they are still open. May be called from any thread."""
        self._dashboard.slots.lingers = True

    def run(self) -> None:
        """Serve until the method `end` is called or a signal arrives."""
        sys.setswitchinterval(SWITCH_INTERVAL)
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def end(self) -> None:
        """Make `run` return soon. May be called from any thread."""
        self._server.should_exit = True


def _bound(port: int) -> socket.socket:
    """Return a socket that listens on a port, or on any free port if `port` is 0. Raises ClusterkitError."""
    try:
        # Clients that connect before the server is running are queued in this backlog instead of being refused.
        return socket.create_server((HOST, port), backlog=MOST_CONNECTIONS)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise ClusterkitError(f"The dashboard server can't listen on port {port}: {why}.") from None
